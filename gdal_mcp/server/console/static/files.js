// The contents of the workspaces: folders, datasets with thumbnails, and making a folder.

import { get, post } from "./api.js";
import { bytes, el, fill, say } from "./dom.js";
import { picture } from "./pictures.js";

export function files(main, state, rest) {
  const folder = decodeURIComponent(rest || "");
  const tiles = el("div", { class: "tiles", id: "files" });
  const more = el("button", { type: "button", hidden: true }, "More files");
  let next = null;

  async function load(cursor) {
    try {
      const query = new URLSearchParams({ path: folder });
      if (cursor) query.set("cursor", cursor);
      const found = await get(`files?${query}`);
      if (!cursor) fill(tiles, found.entries.length ? [] : el("p", { class: "empty" }, "This folder is empty."));
      tiles.append(...found.entries.map(entry));
      next = found.next;
      more.hidden = !next;
    } catch (error) {
      say(error.message, "bad");
    }
    tiles.dataset.loaded = "true";
  }

  more.addEventListener("click", () => load(next));
  if (!folder) {
    main.append(el("h1", {}, "Files"), el("ul", { class: "places" }, state.me.workspaces.map((root) => el("li", {}, link(root, root)))));
    return {};
  }
  main.append(el("h1", {}, "Files"), trail(folder, state.me.workspaces), state.me.decides && newFolder(folder, () => load()) || "", tiles, more);
  load();
  return {};
}

function link(path, text) {
  return el("a", { href: `#/files/${encodeURIComponent(path)}` }, text);
}

// Links to the folders between the workspace and this folder.
function trail(folder, roots) {
  const root = roots.filter((one) => folder === one || folder.startsWith(`${one}/`)).sort((a, b) => b.length - a.length)[0] || folder;
  const steps = folder.slice(root.length).split("/").filter(Boolean);
  const parts = steps.map((name, at) => [" / ", link([root, ...steps.slice(0, at + 1)].join("/"), name)]);
  return el("p", { class: "file-name" }, el("a", { href: "#/files" }, "All workspaces"), " / ", link(root, root), parts);
}

function newFolder(folder, again) {
  const name = el("input", { type: "text", id: "folder-name", autocomplete: "off" });
  const submit = async (event) => {
    event.preventDefault();
    try {
      await post("folder", { path: `${folder}/${name.value.trim()}` });
      name.value = "";
      again();
    } catch (error) {
      say(error.message, "bad");
    }
  };
  return el("form", { class: "row", on: { submit } }, el("label", { for: "folder-name" }, "New folder"), name, el("button", { type: "submit" }, "Make"));
}

function entry(one) {
  const name = one.path.slice(one.path.lastIndexOf("/") + 1);
  const about = [one.driver, one.bytes !== undefined && bytes(one.bytes), one.modified && new Date(one.modified).toLocaleString()].filter(Boolean).join(", ");
  const drawn = one.driver && one.addressable !== false;
  return el("article", { class: "tile", "data-path": one.path },
    drawn ? picture(`files/picture?path=${encodeURIComponent(one.path)}`, name, about) : el("div", { class: "picture", "data-state": "none" }, one.kind === "folder" ? "Folder" : one.kind === "link" ? "Link" : "File"),
    el("h3", {}, one.kind === "folder" && one.addressable !== false ? link(one.path, name) : name),
    el("p", {}, about),
    one.files?.length > 0 && el("p", {}, `With ${one.files.join(", ")}`));
}
