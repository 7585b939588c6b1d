// Sections that have all words of what is asked for, those with them in the heading first.
const input = document.getElementById('search'), found = document.getElementById('found');
let sections;

function look(asked) {
	const words = asked.toLowerCase().split(/\s+/).filter(Boolean);
	const hits = [];
	for (const s of words.length ? sections : []) {
		const heading = (s.title + ' ' + s.heading).toLowerCase(), all = heading + ' ' + s.text.toLowerCase();
		if (words.every(w => all.includes(w))) {
			hits.push({s, score: words.filter(w => heading.includes(w)).length});
		}
	}
	return hits.sort((a, b) => b.score - a.score).slice(0, 20).map(h => ({s: h.s, at: h.s.text.toLowerCase().indexOf(words[0])}));
}

function show(hits, asked) {
	const list = document.createElement('ul');
	for (const {s, at} of hits) {
		const item = list.appendChild(document.createElement('li')), link = item.appendChild(document.createElement('a'));
		link.href = s.page + '#' + s.anchor;
		link.textContent = s.heading === s.title ? s.title : s.title + ': ' + s.heading;
		item.appendChild(document.createElement('small')).textContent = s.text.slice(Math.max(0, at - 60), Math.max(0, at) + 140);
	}
	const told = document.createElement('p');
	told.textContent = hits.length ? '' : 'Nothing has all of these words.';
	found.replaceChildren(told, list);
	found.hidden = !asked.trim();
}

async function search() {
	sections ??= await (await fetch('search.json')).json();
	show(look(input.value), input.value);
}

input.addEventListener('input', search);
input.form.addEventListener('submit', e => e.preventDefault());
if (input.value = new URLSearchParams(location.search).get('q') ?? '') search();
