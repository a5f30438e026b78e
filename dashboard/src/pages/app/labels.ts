/** Converts host labels to and from a line of text, such as `region=eu, zone=eu-1`. Pure. */

export const textOf = (labels: Readonly<Record<string, string>>): string =>
  Object.entries(labels)
    .map(([name, value]) => `${name}=${value}`)
    .join(', ')

/** Parses labels. A part without "=" becomes a label without a value, which the API refuses with a reason. */
export const labelsOf = (text: string | undefined): Record<string, string> =>
  Object.fromEntries(
    (text ?? '')
      .split(',')
      .map(part => part.trim())
      .filter(part => part !== '')
      .map(part => {
        const [name = '', ...value] = part.split('=')
        return [name.trim(), value.join('=').trim()]
      }),
  )
