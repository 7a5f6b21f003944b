// The whole page: its views, the theme, tables that can be sorted, and the live page.

const data = JSON.parse(document.getElementById('data').textContent);
const root = document.documentElement;
const views = [];

/** Reads or writes storage, which a browser may forbid, for example for local files. */
function keep(storage, key, value) {
  try {
    if (value === undefined) return JSON.parse(window[storage].getItem(key));
    window[storage].setItem(key, JSON.stringify(value));
  } catch {
    // Without storage, nothing is kept.
  }
  return null;
}

const redraw = () => views.forEach((view) => view.repaint());

function theme(name) {
  if (name === 'auto') delete root.dataset.theme;
  else root.dataset.theme = name;
  redraw();
}

function sortable(table) {
  const body = table.tBodies[0];
  const heads = [...table.tHead.rows[table.tHead.rows.length - 1].cells];
  heads.forEach((head, column) => {
    const button = make('button', { type: 'button', class: 'sort', text: head.textContent });
    head.replaceChildren(button);
    button.addEventListener('click', () => {
      const up = head.getAttribute('aria-sort') === 'descending';
      heads.forEach((each) => each.removeAttribute('aria-sort'));
      head.setAttribute('aria-sort', up ? 'ascending' : 'descending');
      const value = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent;
      const order = (a, b) => {
        const [x, y] = [+value(a), +value(b)];
        if (Number.isNaN(x) || Number.isNaN(y)) return value(a).localeCompare(value(b)) || 0;
        return x - y;
      };
      body.append(...[...body.rows].sort((a, b) => (up ? order(a, b) : order(b, a))));
    });
  });
}

/** Asks the server now and then whether there are new rows, and reloads the page if so. */
function live(version) {
  const state = document.getElementById('live');
  const check = async () => {
    try {
      const answer = await fetch('version', { cache: 'no-store' });
      const changed = answer.ok && (await answer.text()) !== version;
      if (changed && !views.some((view) => view.brush)) return location.reload();
      state.textContent = 'live';
      state.className = 'live';
    } catch {
      state.textContent = 'not live: the server has ended';
      state.className = 'live gone';
    }
    setTimeout(check, data.every);
  };
  setTimeout(check, data.every);
  addEventListener('pagehide', () => keep('sessionStorage', 'views', views.map((view) => view.state)));
}

const kept = data.version ? keep('sessionStorage', 'views') : null;
data.sections.forEach((section, i) => {
  const host = document.getElementById(`curves-${i}`);
  if (host) views.push(new View(host, section, kept?.[views.length]));
});
document.querySelectorAll('table.sortable').forEach(sortable);

const themes = document.getElementById('theme');
themes.value = keep('localStorage', 'continual-theme') ?? 'auto';
if (themes.selectedIndex < 0) themes.value = 'auto';
themes.addEventListener('change', () => {
  keep('localStorage', 'continual-theme', themes.value);
  theme(themes.value);
});
if (themes.value !== 'auto') theme(themes.value);
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redraw);
// A print uses the light theme, and charts are drawn anew at the width of the paper.
addEventListener('beforeprint', () => {
  root.classList.add('printing');
  theme('light');
});
addEventListener('afterprint', () => {
  root.classList.remove('printing');
  theme(themes.value);
});
if (data.version) live(data.version);
root.dataset.ready = 'true';
