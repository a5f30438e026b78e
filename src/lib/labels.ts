/** Labels of hosts, by name, such as `region=eu`. */
export type Labels = Readonly<Record<string, string>>

export const mostLabels = 32
export const labelNamePattern = '^[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?$'
export const labelValuePattern = '^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$'
const namePattern = new RegExp(labelNamePattern)
const valuePattern = new RegExp(labelValuePattern)

/** Returns what is wrong with the labels; undefined if nothing is. */
export function faultOfLabels(labels: Labels): string | undefined {
  const pairs = Object.entries(labels)
  if (pairs.length > mostLabels) return `can have at most ${mostLabels} entries`
  for (const [name, value] of pairs) {
    if (!namePattern.test(name))
      return `${name.slice(0, 70)} is not a name: at most 63 lower-case letters, digits, dots, dashes and underscores, with a letter or a digit at both ends`
    if (!valuePattern.test(value))
      return `the value of ${name} must be at most 63 letters, digits, dots, dashes and underscores, with a letter or a digit at both ends`
  }
  return undefined
}

/** Parses a setting with labels, such as `region=eu,disk=nvme`. @throws Error */
export function parseLabels(text: string): Labels {
  const pairs = text
    .split(',')
    .map(pair => pair.trim())
    .filter(pair => pair !== '')
    .map(pair => {
      const at = pair.indexOf('=')
      if (at === -1) throw new Error(`${pair.slice(0, 70)} has no value; give labels such as region=eu,disk=nvme`)
      return [pair.slice(0, at), pair.slice(at + 1)] as const
    })
  const labels = Object.fromEntries(pairs)
  const fault = faultOfLabels(labels)
  if (fault !== undefined) throw new Error(fault)
  return labels
}

export const labelsText = (labels: Labels): string =>
  Object.entries(labels)
    .map(([name, value]) => `${name}=${value}`)
    .join(', ')
