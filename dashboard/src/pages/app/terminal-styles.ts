/**
 * Makes the terminal library work with our content security policy, which blocks its `<style>` elements and `style`
 * attributes: while a terminal is open, these become constructed style sheets and style properties (CSSOM, 6.6 and
 * 6.7), which the policy allows. Nothing else in the dashboard uses `<style>` elements or `style` attributes.
 * @returns a function that undoes this
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
