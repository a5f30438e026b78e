/**
 * The terminal library writes its theme into `<style>` elements and its colors into `style` attributes, which our content
 * security policy blocks. While a terminal is open, both become constructed style sheets and properties (CSSOM, 6.6 and
 * 6.7), which need no weaker policy. Nothing else in the dashboard uses either.
 * @returns a function that ends this
 */
export function allowTerminalStyles(): () => void {
  const sheets: CSSStyleSheet[] = []
  const createElement = document.createElement.bind(document)
  const styleElement = (): HTMLElement => {
    const sheet = new CSSStyleSheet()
    sheets.push(sheet)
    document.adoptedStyleSheets.push(sheet)
    const element = createElement('template')
    const text = { set: (css: string) => void sheet.replaceSync(css), get: () => '' }
    return Object.defineProperties(element, { textContent: text, innerText: text })
  }
  Reflect.set(document, 'createElement', (name: string, options?: ElementCreationOptions) =>
    name === 'style' ? styleElement() : createElement(name, options),
  )
  Reflect.set(HTMLSpanElement.prototype, 'setAttribute', setAttribute)
  return () => {
    Reflect.deleteProperty(document, 'createElement')
    Reflect.deleteProperty(HTMLSpanElement.prototype, 'setAttribute')
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter(sheet => !sheets.includes(sheet))
  }
}

function setAttribute(this: HTMLElement, name: string, value: string): void {
  if (name === 'style') this.style.cssText = value
  else Element.prototype.setAttribute.call(this, name, value)
}
