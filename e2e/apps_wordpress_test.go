package e2e

import (
	"fmt"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// wordPress: rows of a post, a comment and a user lie with what they belong to; the options
// are few, read by each page, and unique by name.
var wordPress = app{
	name: "wordpress", root: "usr/share/wordpress",
	placements: `      wp_options: {placement: single, shard: s0}
      wp_postmeta: {shard_key: post_id}
      wp_commentmeta: {shard_key: comment_id}
      wp_usermeta: {shard_key: user_id}
      wp_termmeta: {shard_key: term_id}
      wp_terms: {placement: reference}
      wp_term_taxonomy: {placement: reference}
`,
	prepare: func(t *testing.T, s *site, root string) string {
		docroot := filepath.Join(s.dir, "wordpress")
		if out, err := exec.CommandContext(t.Context(), "cp", "-rL", root, docroot).CombinedOutput(); err != nil {
			// One link leads to the machine's configuration, which isn't there.
			t.Logf("cp: %v: %.300s", err, out)
		}
		config, err := os.ReadFile("apps/wp-config.php")
		if err == nil {
			err = os.WriteFile(filepath.Join(docroot, "wp-config.php"), config, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
		return docroot
	},
	steps: func(u *visit) {
		u.get("/wp-admin/install.php")
		u.post("/wp-admin/install.php?step=2", "weblog_title=Shards & Ümlauts", "user_name=admin", "admin_password=correct horse battery", "admin_password2=correct horse battery",
			"pw_weak=1", "admin_email=admin@example.org", "blog_public=1", "language=")
		u.get("/")
		u.get("/wp-login.php")
		u.post("/wp-login.php", "log=admin", "pwd=correct horse battery", "rememberme=forever", "wp-submit=Log In", "redirect_to={url}/wp-admin/", "testcookie=1")
		for _, page := range []string{"", "index.php", "profile.php", "users.php", "options-general.php", "options-permalink.php", "themes.php", "plugins.php", "tools.php"} {
			u.get("/wp-admin/" + page)
		}

		// Categories and tags, some below others.
		for i, name := range []string{"News", "Sports", "Football", "Größe", "Ελλάδα", "emoji 😀"} {
			parent := 0
			if i == 2 {
				parent = 3
			}
			u.call("wp.newTerm", fmt.Sprintf("struct:name=%s;taxonomy=category;parent=int:%d;description=about %s", name, parent, name))
		}
		for i := range 12 {
			u.call("wp.newTerm", fmt.Sprintf("struct:name=tag %d;taxonomy=post_tag", i))
		}
		u.call("wp.getTerms", "category", "struct:orderby=count;order=DESC;number=int:20")
		u.call("wp.getTerms", "post_tag", "struct:orderby=name;order=ASC;number=int:5;offset=int:3;search=tag")
		u.call("wp.editTerm", "int:4", "struct:name=Fußball;taxonomy=category;slug=fussball")
		u.get("/wp-admin/edit-tags.php?taxonomy=category&orderby=count&order=desc")

		// Users of all roles.
		for i, role := range []string{"subscriber", "contributor", "author", "editor", "author", "subscriber"} {
			page := u.get("/wp-admin/user-new.php")
			u.hold("nonce", `name="_wpnonce_create-user" value="([0-9a-f]+)"`, page)
			u.post("/wp-admin/user-new.php", "action=createuser", "_wpnonce_create-user={nonce}", fmt.Sprintf("user_login=user%d", i), fmt.Sprintf("email=user%d@example.org", i), fmt.Sprintf("first_name=First%d", i),
				fmt.Sprintf("last_name=Läst%d", i), "pass1=correct horse battery", "pass2=correct horse battery", "pw_weak=on", "role="+role, "createuser=Add New User")
		}
		for _, q := range []string{"", "?role=author", "?s=user3", "?orderby=email&order=desc", "?s=*example*&orderby=login"} {
			u.get("/wp-admin/users.php" + q)
		}
		u.call("wp.getUsers", "struct:role=author;orderby=user_login;order=DESC")
		u.call("wp.getUsers", "struct:who=authors;number=int:2;offset=int:1;orderby=display_name;order=ASC")

		// Posts: written, edited again and again (revisions), with terms and custom fields.
		for i := range 40 {
			status := []string{"publish", "publish", "publish", "draft", "private", "pending"}[i%6]
			kind := "post"
			if i%9 == 8 {
				kind = "page"
			}
			u.call("wp.newPost", fmt.Sprintf("struct:post_type=%s;post_status=%s;post_title=Post %d of shards;post_content=word%d común words %s;post_excerpt=excerpt %d;post_author=int:%d;comment_status=open;"+
				"custom_fields=fields:color=%s,size=%d;terms_names=terms:%s", kind, status, i, i%7, strings.Repeat("lorem ipsum ", i), i, 1+i%5, []string{"red", "green", "blue"}[i%3], i*10, []string{"tag 1,tag 2", "tag 3", "tag 1,new tag", "tag 5"}[i%4]))
			u.hold("post", `<string>(\d+)</string>`, u.call("wp.getPosts", "struct:number=int:1;orderby=ID;order=DESC;post_type="+kind, "list:post_id"))
			if i%3 == 0 {
				u.call("wp.editPost", "int:{post}", fmt.Sprintf("struct:post_content=edited %d, once;post_title=Post %d, changed", i, i))
				u.call("wp.editPost", "int:{post}", fmt.Sprintf("struct:post_content=edited %d, twice;sticky=bool:%d", i, i%2))
				u.call("wp.getRevisions", "int:{post}", "list:post_title")
			}
			if i%10 == 0 {
				u.get("/?p={post}")
				u.get("/wp-admin/post.php?post={post}&action=edit")
			}
			if i%13 == 12 {
				u.call("wp.deletePost", "int:{post}")
			}
		}
		for _, filter := range []string{
			"number=int:10;orderby=date;order=DESC", "number=int:5;offset=int:5;orderby=title;order=ASC", "post_status=draft;number=int:50;orderby=ID;order=ASC",
			"post_type=page;number=int:50;orderby=title;order=ASC", "number=int:20;s=común;orderby=ID;order=ASC",
		} {
			u.call("wp.getPosts", "struct:"+filter, "list:post_id,post_title,terms,custom_fields")
		}

		// Comments, as visitors and moderators.
		for i := range 30 {
			u.post("/wp-comments-post.php", fmt.Sprintf("comment=A comment, number %d, about ähm things", i), fmt.Sprintf("author=visitor%d", i%4), fmt.Sprintf("email=visitor%d@example.org", i%4), "comment_post_ID=1",
				fmt.Sprintf("comment_parent=%d", map[bool]int{true: i, false: 0}[i%5 == 4]), "submit=Post Comment")
			if i%6 == 0 {
				u.call("wp.newComment", "int:1", fmt.Sprintf("struct:content=by the admin %d", i))
			}
		}
		u.call("wp.getCommentCount", "int:1")
		u.call("wp.getComments", "struct:post_id=int:1;number=int:10;offset=int:2")
		u.call("wp.editComment", "int:5", "struct:status=hold;content=changed")
		u.call("wp.editComment", "int:6", "struct:status=spam")
		u.call("wp.deleteComment", "int:7")
		for _, q := range []string{"", "?comment_status=moderated", "?comment_status=spam", "?comment_status=trash", "?s=number", "?p=1&paged=2", "?orderby=comment_author&order=asc"} {
			u.get("/wp-admin/edit-comments.php" + q)
		}

		// Visitors read.
		for _, path := range []string{
			"/", "/?paged=2", "/?paged=3", "/?s=lorem", "/?s=común&paged=2", "/?cat=1", "/?cat=3", "/?tag=tag-1", "/?tag=tag-1,tag-3", "/?tag=tag-1%2Btag-2", "/?author=1", "/?author=2", "/?m=2026", "/?m=202611", "/?feed=rss2",
			"/?feed=atom", "/?feed=comments-rss2", "/?p=1", "/?p=1&cpage=2", "/?page_id=2", "/?p=99999", "/?orderby=title&order=asc", "/?orderby=modified&order=asc", "/wp-sitemap.xml",
			"/?sitemap=posts&sitemap-subtype=post&paged=1", "/?sitemap=users&paged=1", "/?meta_key=color&meta_value=red", "/?year=2026&monthnum=11", "/?attachment_id=3", "/?name=hello-world", "/?pagename=sample-page",
		} {
			u.get(path)
		}
		for _, route := range []string{
			"posts", "posts&per_page=50&orderby=title&order=asc", "posts&search=shards", "posts&categories=1&tags=9", "posts&author=2,3", "posts&exclude=1,2&offset=3", "posts&after=2020-01-01T00:00:00&orderby=modified", "pages", "comments",
			"comments&post=1&orderby=id&order=asc", "categories&orderby=count&order=desc", "tags&search=tag", "tags&hide_empty=true", "users", "users/1", "posts/1", "posts/1/revisions", "search&search=Post", "taxonomies", "types", "statuses", "posts&sticky=true",
			"posts&orderby=relevance&search=lorem+ipsum", "posts&tax_relation=AND&categories=1&tags=8", "categories?parent=3", "blocks", "menus",
		} {
			u.get("/?rest_route=/wp/v2/" + route)
		}

		// The desk: lists, bulk actions, quick edits, settings, export.
		for _, q := range []string{
			"", "?post_status=draft", "?post_status=trash&post_type=post", "?s=words", "?cat=1", "?author=2", "?orderby=title&order=asc&paged=2", "?m=202611", "?post_type=page", "?post_status=publish&tag=tag-1",
		} {
			u.get("/wp-admin/edit.php" + q)
		}
		page := u.get("/wp-admin/edit.php")
		u.hold("nonce", `id="_wpnonce" name="_wpnonce" value="([0-9a-f]+)"`, page)
		u.get("/wp-admin/edit.php?action=trash&action2=trash&_wpnonce={nonce}&post[]=17&post[]=25&post[]=42&post_type=post&post_status=all")
		u.get("/wp-admin/edit.php?action=untrash&_wpnonce={nonce}&post[]=25&post_type=post&post_status=trash")
		u.get("/wp-admin/edit.php?action=delete&_wpnonce={nonce}&post[]=17&post_type=post&post_status=trash")
		for _, settings := range []string{"general", "reading", "discussion", "writing", "media"} {
			page := u.get("/wp-admin/options-" + settings + ".php")
			u.hold("nonce", `name="_wpnonce" value="([0-9a-f]+)"`, page)
		}
		page = u.get("/wp-admin/options-reading.php")
		u.hold("nonce", `name="_wpnonce" value="([0-9a-f]+)"`, page)
		u.post("/wp-admin/options.php", "option_page=reading", "action=update", "_wpnonce={nonce}", "posts_per_page=5", "posts_per_rss=7", "rss_use_excerpt=1", "show_on_front=posts", "blog_public=1")
		u.get("/")
		u.get("/?feed=rss2")
		u.get("/wp-admin/export.php?download=true&content=all")
		u.get("/wp-admin/export.php?download=true&content=posts&cat=0&post_author=0&post_status=0")

		// A user goes, and what is his goes to another.
		page = u.get("/wp-admin/users.php")
		u.hold("nonce", `id="_wpnonce" name="_wpnonce" value="([0-9a-f]+)"`, page)
		page = u.get("/wp-admin/users.php?action=delete&users[]=3&_wpnonce={nonce}")
		u.hold("nonce", `name="_wpnonce" value="([0-9a-f]+)"`, page)
		u.post("/wp-admin/users.php", "action=dodelete", "_wpnonce={nonce}", "users[]=3", "delete_option=reassign", "reassign_user=1", "submit=Confirm Deletion")
		u.get("/?author=1")
		u.get("/wp-admin/users.php")
		u.get("/wp-login.php?action=lostpassword")
		u.post("/wp-login.php?action=lostpassword", "user_login=user4", "redirect_to=", "wp-submit=Get New Password")
	},
	advised: map[string][]string{
		"wp_posts": {"ID"}, "wp_postmeta": {"post_id"}, "wp_commentmeta": {"comment_id"}, "wp_users": {"ID"}, "wp_usermeta": {"user_id"},
		"wp_term_relationships": {"object_id"}, "wp_terms": {"reference"}, "wp_term_taxonomy": {"reference"},
		"wp_comments": {"comment_ID"},                         // not the post's: who edits a comment sets that, too
		"wp_options":  {"reference", "single", "option_name"}, // by how often they are written
	},
	growing: []string{"wp_posts", "wp_postmeta", "wp_comments", "wp_commentmeta", "wp_users", "wp_usermeta", "wp_term_relationships"},
	unlike: []string{
		"wp_users.user_pass", "wp_users.user_activation_key", "wp_options.option_value", // salts, lock times
	},
}

// call calls a method of WordPress's XML-RPC as the administrator, and compares the answers.
// An argument is text, or int:N, struct:NAME=VALUE;..., list:VALUE,...
func (u *visit) call(method string, args ...string) map[*site]string {
	u.t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "<?xml version=\"1.0\"?><methodCall><methodName>%s</methodName><params>", method)
	for _, a := range append([]string{"int:1", "admin", "correct horse battery"}, args...) {
		fmt.Fprintf(&b, "<param>%s</param>", rpcValue(a))
	}
	b.WriteString("</params></methodCall>")
	return u.xml("/xmlrpc.php", b.String())
}

func rpcValue(text string) string {
	kind, rest, typed := strings.Cut(text, ":")
	if !typed {
		kind, rest = "", text
	}
	var b strings.Builder
	switch kind {
	case "int":
		b.WriteString("<int>" + rest + "</int>")
	case "bool":
		b.WriteString("<boolean>" + rest + "</boolean>")
	case "list":
		b.WriteString("<array><data>")
		for v := range strings.SplitSeq(rest, ",") {
			b.WriteString(rpcValue(v))
		}
		b.WriteString("</data></array>")
	case "struct":
		b.WriteString("<struct>")
		for m := range strings.SplitSeq(rest, ";") {
			name, value, _ := strings.Cut(m, "=")
			b.WriteString("<member><name>" + name + "</name>" + rpcValue(value) + "</member>")
		}
		b.WriteString("</struct>")
	case "fields": // custom fields: key=value,...
		b.WriteString("<array><data>")
		for f := range strings.SplitSeq(rest, ",") {
			key, value, _ := strings.Cut(f, "=")
			b.WriteString(rpcValue("struct:key=" + key + ";value=" + value))
		}
		b.WriteString("</data></array>")
	case "terms": // names of tags
		b.WriteString("<struct><member><name>post_tag</name>" + rpcValue("list:"+rest) + "</member></struct>")
	default:
		b.WriteString("<string>" + html.EscapeString(text) + "</string>")
	}
	return "<value>" + b.String() + "</value>"
}
