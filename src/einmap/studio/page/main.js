// The studio on its page: messages go over one WebSocket, each with a number that its answer has too.
import { mount } from "./studio.js";

function socketTransport() {
  const waiting = new Map();
  let number = 0;
  const transport = { heard: null, lost: null };
  const socket = new WebSocket(new URL("socket", document.baseURI.replace(/^http/, "ws")));
  const ready = new Promise((resolve) => socket.addEventListener("open", resolve));
  socket.addEventListener("message", (event) => {
    const { id, answer } = JSON.parse(event.data);
    if (id === null) return transport.heard?.(answer);
    waiting.get(id)?.(answer);
    return waiting.delete(id);
  });
  socket.addEventListener("close", () => transport.lost?.());
  transport.ask = async (message) => {
    await ready;
    number += 1;
    const id = number;
    const answered = new Promise((resolve) => waiting.set(id, resolve));
    socket.send(JSON.stringify({ id, message }));
    return answered;
  };
  return transport;
}

mount(document.getElementById("studio"), socketTransport());
