// What a drawing depends on beyond its data: the width of its element, and dark or light.
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { dark, scheme } from "./colors.js";

// Whoever uses it is drawn again when the system changes between dark and light.
export function useTheme() {
  const [theme, setTheme] = useState(scheme());
  useLayoutEffect(() => {
    const onTheme = () => setTheme(scheme());
    dark.addEventListener("change", onTheme);
    return () => dark.removeEventListener("change", onTheme);
  }, []);
  return theme;
}

// The element is drawn again when one of them changes.
export function useElement() {
  const box = useRef();
  const [width, setWidth] = useState(0);
  const theme = useTheme();
  useLayoutEffect(() => {
    const observer = new ResizeObserver(([entry]) => setWidth(Math.floor(entry.contentRect.width)));
    observer.observe(box.current);
    return () => observer.disconnect();
  }, []);
  return { box, width, theme };
}
