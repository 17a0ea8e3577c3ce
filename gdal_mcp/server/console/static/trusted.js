// By the server's policy no text becomes markup or the address of a script, except the two constants that pass here.

const MARKUP = "<svg/>"; // the map's library looks with it whether the browser can draw

// `script` is the address of the map's library, where that is still to be loaded.
export function guardMarkup(script) {
  if (!window.trustedTypes) return;
  const only = (allowed) => (text) => {
    if (text !== allowed) throw new TypeError("this page makes no markup from text");
    return text;
  };
  window.trustedTypes.createPolicy("default", { createHTML: only(MARKUP), createScriptURL: only(script) });
}
