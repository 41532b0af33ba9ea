// The studio in a notebook: messages go over the model of an anywidget.
function render({ model, el }) {
  const waiting = new Map();
  let number = 0;
  const transport = { heard: null, lost: null };
  const hear = ({ id, answer }) => {
    waiting.get(id)?.(answer);
    waiting.delete(id);
  };
  model.on("msg:custom", hear);
  transport.ask = (message) =>
    new Promise((resolve) => {
      number += 1;
      waiting.set(number, resolve);
      model.send({ id: number, message });
    });
  const root = document.createElement("div");
  el.append(root);
  mount(root, transport);
  return () => model.off("msg:custom", hear);
}

export default { render };
