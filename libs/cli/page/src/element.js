// What a drawing on a canvas depends on beyond its data: the width of its element, and dark or light.
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { dark, scheme } from "./colors.js";

// The element is drawn again when one of them changes.
export function useElement() {
  const box = useRef();
  const [width, setWidth] = useState(0);
  const [theme, setTheme] = useState(scheme());
  useLayoutEffect(() => {
    const observer = new ResizeObserver(([entry]) => setWidth(Math.floor(entry.contentRect.width)));
    observer.observe(box.current);
    const onTheme = () => setTheme(scheme());
    dark.addEventListener("change", onTheme);
    return () => {
      observer.disconnect();
      dark.removeEventListener("change", onTheme);
    };
  }, []);
  return { box, width, theme };
}
