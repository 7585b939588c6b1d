package e2e

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// mediaWiki: what belongs to a page lies with it; small tables whose names are unique are
// on every shard. Histories can't be merged: that changes the shard key of revisions.
var mediaWiki = app{
	name: "mediawiki", root: "usr/share/mediawiki",
	placements: `      revision: {shard_key: rev_page}
      slots: {shard_key: slot_revision_id}
      searchindex: {shard_key: si_page}
      site_stats: {placement: reference}
      content_models: {placement: reference}
      slot_roles: {placement: reference}
      change_tag_def: {placement: reference}
      user_groups: {shard_key: ug_user}
`,
	prepare: func(t *testing.T, s *site, root string) string {
		s.env = append(s.env, "MW_CONFIG_FILE="+filepath.Join(s.dir, "LocalSettings.php"))
		host, port, _ := strings.Cut(s.dbAddr, ":")
		s.installed = func() {
			without := s.env[len(s.env)-1]
			s.env = s.env[:len(s.env)-1] // the installer refuses to run over settings
			s.php(t, filepath.Join(root, "maintenance/install.php"), "--dbtype=mysql", "--dbserver="+host+":"+port, "--dbname="+s.schema, "--installdbuser="+s.user, "--installdbpass="+s.password,
				"--dbuser="+s.user, "--dbpass="+s.password, "--pass=correct horse battery", "--confpath="+s.dir, "--server="+s.url, "--scriptpath=", "--with-extensions=0", "Wiki", "Admin")
			s.env = append(s.env, without)
			settings := filepath.Join(s.dir, "LocalSettings.php")
			text, err := os.ReadFile(settings)
			more, err2 := os.ReadFile("apps/mediawiki.php")
			if err != nil || err2 != nil {
				t.Fatal(err, err2)
			}
			if err := os.WriteFile(settings, []byte(string(text)+strings.TrimPrefix(string(more), "<?php")), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return root
	},
	steps: func(u *visit) {
		for _, s := range u.sites {
			s.installed()
		}
		jobs := func() {
			for _, s := range u.sites {
				s.php(u.t, filepath.Join(os.Getenv("SHUNT_E2E_APPS"), "usr/share/mediawiki/maintenance/runJobs.php"))
			}
		}
		api := func(values ...string) map[*site]string {
			u.t.Helper()
			return u.post("/api.php", append([]string{"format=json", "formatversion=2"}, values...)...)
		}
		query := func(values ...string) { u.t.Helper(); api(append([]string{"action=query"}, values...)...) }
		token := func(kind string) {
			u.t.Helper()
			u.hold("token", `"`+kind+`token":"([^"]*)"`, api("action=query", "meta=tokens", "type="+kind))
			for s, held := range u.held {
				u.held[s]["token"] = strings.ReplaceAll(held["token"], `\\`, `\`)
			}
		}
		login := func(name string) {
			u.t.Helper()
			token("login")
			api("action=clientlogin", "username="+name, "password=correct horse battery", "loginreturnurl=http://example.org/", "logintoken={token}")
			token("csrf")
		}
		u.get("/index.php?title=Main_Page")
		for i := range 4 {
			token("createaccount")
			api("action=createaccount", fmt.Sprintf("username=User %d", i), "password=correct horse battery", "retype=correct horse battery", fmt.Sprintf("email=user%d@example.org", i), "createreturnurl=http://example.org/", "createtoken={token}")
			token("csrf")
			api("action=logout", "token={token}")
		}
		login("Admin")

		// Pages in several namespaces: links, categories, templates, redirects.
		edit := func(title, text, summary string) {
			u.t.Helper()
			api("action=edit", "title="+title, "text="+text, "summary="+summary, "token={token}")
		}
		edit("Template:Box", "<b>{{{1|nothing}}}</b> of [[Main Page]][[Category:Boxed]]", "a template")
		for i := range 30 {
			edit(fmt.Sprintf("Page %d", i), fmt.Sprintf("Text of page %d about söme words.\n\n== Part %d ==\n[[Page %d]] [[Page %d|other]] [[Missing %d]] {{Box|%d}} [https://example.org/%d link]\n[[Category:Even%d]]", i, i, (i+1)%30, (i*7)%30, i%5, i, i%3, i%2), fmt.Sprintf("page %d", i))
			if i%4 == 0 {
				edit(fmt.Sprintf("Page %d", i), fmt.Sprintf("Changed text %d [[Page 1]] {{Box}} [[Category:Changed]]", i), "changed")
			}
			if i%5 == 0 {
				edit(fmt.Sprintf("Talk:Page %d", i), "Is it so? ~~~~", "asked")
			}
			if i%10 == 0 {
				edit(fmt.Sprintf("Redirect %d", i), fmt.Sprintf("#REDIRECT [[Page %d]]", i), "")
			}
		}
		jobs()
		api("action=edit", "title=Page 3", "appendtext= and more", "token={token}")
		api("action=edit", "title=Page 3", "section=1", "text=== Other part ==\nnew", "token={token}")
		api("action=edit", "title=Page 3", "createonly=1", "text=never", "token={token}")
		api("action=edit", "title=Never there", "nocreate=1", "text=never", "token={token}")
		api("action=move", "from=Page 5", "to=Moved 5", "movetalk=1", "reason=moved", "token={token}")
		api("action=move", "from=Page 6", "to=Page 7", "token={token}")
		api("action=delete", "title=Page 8", "reason=gone", "token={token}")
		api("action=delete", "title=Page 9", "reason=gone for a while", "token={token}")
		api("action=undelete", "title=Page 9", "token={token}")
		api("action=protect", "title=Page 10", "protections=edit=sysop|move=sysop", "expiry=infinite", "token={token}")
		api("action=block", "user=User 3", "expiry=1 week", "reason=test", "token={token}")
		token("watch")
		api("action=watch", "titles=Page 1|Page 2|Page 3", "token={token}")
		api("action=watch", "titles=Page 2", "unwatch=1", "token={token}")
		token("userrights")
		api("action=userrights", "user=User 1", "add=bureaucrat|sysop", "token={token}")
		token("csrf")
		api("action=tag", "revid=5", "add=mw-undo", "token={token}")
		api("action=managetags", "operation=create", "tag=seen", "reason=why", "token={token}")
		api("action=tag", "revid=5|6|7", "add=seen", "token={token}")
		api("action=purge", "titles=Page 1|Page 2", "forcelinkupdate=1")
		api("action=options", "change=language=de|rows=30", "token={token}")
		api("action=options", "reset=1", "token={token}")
		jobs()

		for _, q := range []string{
			"list=allpages&aplimit=50", "list=allpages&apprefix=Page 1&apdir=descending", "list=allpages&apfilterredir=redirects", "list=recentchanges&rcprop=title|user|comment|sizes|flags&rclimit=30", "list=recentchanges&rcuser=Admin&rctype=new|edit|log&rclimit=50",
			"list=search&srsearch=söme words", "list=search&srsearch=Changed&srlimit=5&srwhat=title", "list=search&srsearch=text&srwhat=text&sroffset=3", "list=backlinks&bltitle=Page 1&bllimit=50", "list=backlinks&bltitle=Page 10&blredirect=1",
			"list=embeddedin&eititle=Template:Box&eilimit=50", "list=categorymembers&cmtitle=Category:Even0&cmlimit=50&cmsort=timestamp", "list=categorymembers&cmtitle=Category:Changed", "list=allcategories&acprop=size", "list=usercontribs&ucuser=Admin&uclimit=40",
			"list=logevents&lelimit=50", "list=logevents&letype=move", "list=allusers&auprop=groups|editcount|registration", "list=users&ususers=Admin|User 1|User 3|Nobody&usprop=groups|blockinfo|editcount", "list=watchlist&wllimit=20", "list=watchlistraw",
			"list=blocks", "list=protectedtitles", "list=exturlusage&eulimit=30", "list=alllinks&allimit=50&alunique=1", "list=querypage&qppage=Wantedpages", "list=querypage&qppage=Mostlinkedcategories", "list=querypage&qppage=Lonelypages", "list=querypage&qppage=Shortpages",
			"list=querypage&qppage=Longpages", "list=querypage&qppage=Uncategorizedpages", "list=querypage&qppage=Mostrevisions", "list=querypage&qppage=Fewestrevisions", "list=querypage&qppage=DoubleRedirects", "list=querypage&qppage=BrokenRedirects", "list=querypage&qppage=Deadendpages",
			"list=querypage&qppage=Mostlinked", "list=querypage&qppage=Ancientpages", "list=querypage&qppage=Unusedtemplates", "list=querypage&qppage=Wantedcategories", "list=prefixsearch&pssearch=Page", "list=tags&tgprop=hitcount|active", "list=allrevisions&arvlimit=20",
			"list=deletedrevs&titles=Page 8&drprop=revid|user|comment", "list=alldeletedrevisions&adrlimit=20", "meta=siteinfo&siprop=general|statistics|namespaces", "meta=userinfo&uiprop=groups|rights|editcount|options",
			"prop=revisions&titles=Page 3&rvlimit=10&rvprop=ids|content|comment|size&rvslots=main", "prop=revisions|info|categories|links|templates&titles=Page 1|Page 2|Moved 5&rvprop=ids|user", "prop=linkshere&titles=Page 1&lhlimit=20", "prop=info&titles=Page 10&inprop=protection|watchers",
			"prop=categoryinfo&titles=Category:Even0|Category:Even1", "prop=contributors&titles=Page 3", "prop=redirects&titles=Page 10", "generator=allpages&gaplimit=20&prop=info|revisions", "generator=categorymembers&gcmtitle=Category:Even1&prop=categories&cllimit=100",
			"generator=links&titles=Page 4&prop=info", "list=pageswithprop&pwppropname=displaytitle", "list=pagepropnames", "list=iwbacklinks&iwblprefix=x", "list=allfileusages", "list=allimages", "list=langbacklinks&lbllang=de", "list=alltransclusions&atunique=1",
			"list=recentchanges&rcnamespace=0|1&rcshow=!minor|!redirect&rclimit=10", "list=usercontribs&ucuserprefix=User&ucshow=new",
		} {
			values, err := url.ParseQuery(strings.ReplaceAll(q, ";", "%3B"))
			if err != nil {
				u.t.Fatal(err)
			}
			var all []string
			for name, of := range values {
				all = append(all, name+"="+of[0])
			}
			query(all...)
		}
		for _, page := range []string{
			"Main_Page", "Page_1", "Page_3&action=history", "Page_3&action=history&limit=1&dir=prev", "Page_3&diff=cur&oldid=prev", "Page_10&action=info", "Page_3&action=raw", "Category:Even0", "Category:Changed", "Redirect_10", "Missing_1", "Page_8", "Special:RecentChanges",
			"Special:RecentChanges&days=30&limit=100&hidebots=0", "Special:AllPages", "Special:AllPages&from=Page_2&namespace=0", "Special:Search&search=text&fulltext=1", "Special:Search&search=Page&profile=all&fulltext=1&offset=5", "Special:Contributions/Admin", "Special:WhatLinksHere/Page_1",
			"Special:WhatLinksHere/Template:Box", "Special:Categories", "Special:Statistics", "Special:ListUsers", "Special:Watchlist", "Special:Log", "Special:Log/move", "Special:NewPages", "Special:PrefixIndex/Page_2", "Special:BlockList", "Special:ProtectedPages", "Special:ActiveUsers",
			"Special:Undelete/Page_8", "Special:Tags", "Special:LinkSearch&target=https://example.org", "Special:RecentChangesLinked/Page_1", "Special:ListGroupRights", "Special:Version", "Special:SpecialPages", "Special:Preferences", "Special:Export/Page_1", "Special:MostRevisions",
			"Special:WantedPages", "Special:ListRedirects", "Special:ShortPages", "Special:Block/User_2", "Special:UserRights/User_1", "Special:MovePage/Page_2", "Page_2&action=edit", "Page_2&action=delete", "Page_2&action=protect",
		} {
			u.get("/index.php?title=" + page)
		}

		// Another user: rollback, undo, what he may not.
		api("action=logout", "token={token}")
		login("User 2")
		edit("Page 11", "by another user [[Page 12]]", "mine")
		edit("Page 10", "not allowed", "")
		api("action=edit", "title=Page 12", "undo=20", "token={token}")
		api("action=delete", "title=Page 12", "token={token}")
		api("action=logout", "token={token}")
		login("Admin")
		token("rollback")
		api("action=rollback", "title=Page 11", "user=User 2", "token={token}")
		token("csrf")
		api("action=revisiondelete", "type=revision", "ids=10|11", "hide=comment", "token={token}")
		api("action=unblock", "user=User 3", "token={token}")
		jobs()
		u.get("/index.php?title=Special:RecentChanges&days=30&limit=500")
		u.get("/index.php?title=Special:Log&limit=500")
		for _, script := range [][]string{{"updateSpecialPages.php"}, {"rebuildrecentchanges.php"}, {"initSiteStats.php", "--update"}, {"refreshLinks.php"}, {"dumpBackup.php", "--full", "--quiet"}, {"rebuildtextindex.php"}, {"update.php", "--quick"}} {
			var told []string
			for _, s := range u.sites {
				told = append(told, s.alike(s.php(u.t, append([]string{filepath.Join(os.Getenv("SHUNT_E2E_APPS"), "usr/share/mediawiki/maintenance", script[0])}, script[1:]...)...)))
			}
			if told[0] != told[1] {
				u.t.Errorf("%s:\n%s", script[0], firstDifference(told[1], told[0]))
			}
		}
		u.get("/index.php?title=Special:Statistics")
		u.get("/index.php?title=Special:WantedPages")
	},
	unlike: []string{
		// Statements that use no number, as INSERT IGNORE of a row that is there, leave other gaps than on one server.
		"actor.actor_id", "recentchanges.rc_id", "change_tag.ct_rc_id", "watchlist.wl_id",
		"objectcache", "user.user_password", "user.user_newpassword", "user.user_token", "user.user_email_token", "querycache_info", "l10n_cache", "module_deps", "updatelog",
	},
	tied: []string{
		"list=search", "Special:Search", // by scores, which are of a page's own shard
		"action=watch&", "action=purge&", "qppage=Shortpages", "qppage=Longpages", "qppage=Mostrevisions", "qppage=Fewestrevisions", "qppage=Mostlinked",
		"Special:MostRevisions", "Special:ShortPages", "Special:Log/move",
	},
}
