// The server lets no text become markup or a script's address, unless this says so. It does for two constants.

const MARKUP = "<svg/>"; // the map's library looks with it whether the browser can draw
export const MAP_SCRIPT = new URL("vendor/leaflet.js", document.baseURI).href;

export function guardMarkup() {
  if (!window.trustedTypes) return;
  const only = (allowed) => (text) => {
    if (text !== allowed) throw new TypeError("the console makes no markup of texts");
    return text;
  };
  window.trustedTypes.createPolicy("default", { createHTML: only(MARKUP), createScriptURL: only(MAP_SCRIPT) });
}
