const longest = 40

/** A DNS label, like every app's name: the number stays whole, the name gives way. */
export function previewName(app: string, number: number): string {
  const suffix = `-pr-${number}`
  return app.slice(0, longest - suffix.length).replace(/-+$/, '') + suffix
}
