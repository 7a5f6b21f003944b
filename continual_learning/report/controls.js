// The controls of a view. Text from the data goes through textContent alone.

/** Makes an element with attributes; `text` becomes its text, `on…` its listeners. */
function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === 'text') element.textContent = value;
    else if (key.startsWith('on')) element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value);
  }
  element.append(...children);
  return element;
}

/** Makes a small round button. */
function chip(text, label, onclick, more = {}) {
  return make('button', { type: 'button', class: 'chip', text, 'aria-label': label, onclick, ...more });
}

/** Makes a button for each method; while the pointer is on one, the other methods fade. */
function methodButtons(view) {
  const { methods } = view.state;
  const buttons = view.section.methods.map((method, i) => {
    const press = () => {
      methods[i] = !methods[i];
      button.setAttribute('aria-pressed', `${methods[i]}`);
      view.draw();
    };
    const hot = (value) => () => {
      view.hot = value !== null && methods[value] ? value : null;
      view.draw();
    };
    const button = make(
      'button',
      { type: 'button', class: 'chip method', 'aria-pressed': `${methods[i]}`, onclick: press, onmouseenter: hot(i), onmouseleave: hot(null) },
      make('i', { class: `swatch c${i}` }),
      make('span', { text: method.name }),
    );
    return button;
  });
  return make('div', { class: 'chips methods', role: 'group', 'aria-label': 'Methods' }, ...buttons);
}

/** Makes a button for each seed and two for all of them, in a closed box. */
function seedButtons(view) {
  const { seeds } = view.state;
  const summary = make('summary');
  const show = () => {
    const on = seeds.filter(Boolean).length;
    summary.textContent = `Seeds: ${on === seeds.length ? `all ${on}` : `${on} of ${seeds.length}`} drawn`;
    buttons.forEach((button, i) => button.setAttribute('aria-pressed', `${seeds[i]}`));
    view.draw();
  };
  const set = (change) => () => {
    change();
    show();
  };
  const buttons = view.section.seeds.map((seed, i) =>
    chip(`${seed}`, `Seed ${seed}`, set(() => (seeds[i] = !seeds[i])), { class: 'chip seed' }),
  );
  show();
  const note = 'Which thin lines are drawn. The IQM and its band are of all seeds, whichever are drawn.';
  return make(
    'details',
    { class: 'seeds' },
    summary,
    make('p', { class: 'note', text: note }),
    make(
      'div',
      { class: 'chips', role: 'group', 'aria-label': 'Seeds' },
      chip('all', 'All seeds', set(() => seeds.fill(true))),
      chip('none', 'No seeds', set(() => seeds.fill(false))),
      ...buttons,
    ),
  );
}

function select(label, options, chosen, change) {
  const box = make('select', { onchange: () => change(box.value) });
  box.append(...options);
  box.value = chosen;
  return make('label', { class: 'choice' }, make('span', { text: label }), box);
}

/** Makes the controls of the metric, the smoothing and the zoom. */
function choices(view) {
  const { state, section } = view;
  const option = (value, text) => make('option', { value, text });
  const groups = section.groups.map((group) =>
    make('optgroup', { label: group.title }, ...group.metrics.map((m) => option(m.name, m.title))),
  );
  const levels = section.levels.map((text, i) => option(`${i}`, text));
  const toggle = { class: 'chip toggle' };
  const drag = chip('Drag moves', 'Drag to move instead of to zoom', () => {
    state.drag = state.drag === 'move' ? 'zoom' : 'move';
    drag.setAttribute('aria-pressed', `${state.drag === 'move'}`);
  }, toggle);
  drag.setAttribute('aria-pressed', `${state.drag === 'move'}`);
  return make(
    'div',
    { class: 'choices' },
    select('Metric', groups, state.metric, (name) => view.choose(name)),
    select('Smoothing', levels, `${state.level}`, (value) => {
      state.level = +value;
      view.draw();
    }),
    make(
      'div',
      { class: 'chips zoom', role: 'group', 'aria-label': 'Zoom' },
      chip('+', 'Zoom in', () => view.scale(0.5)),
      chip('−', 'Zoom out', () => view.scale(2)),
      chip('◀', 'Earlier', () => view.pan(-0.25)),
      chip('▶', 'Later', () => view.pan(0.25)),
      drag,
      chip('Reset zoom', 'Reset zoom', () => view.zoom(null)),
    ),
  );
}
