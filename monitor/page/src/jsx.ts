// The functions that JSX becomes: as arguments, children take fewer bytes than as a property.
export { createElement as jsxElement, Fragment as jsxFragment } from "preact";
