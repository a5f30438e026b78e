/** A range of TCP ports, including `first` and `last`. */
export interface PortRange {
  readonly first: number
  readonly last: number
}

/** Parses a range such as `20000-20999`; undefined if the text is empty. @throws Error */
export function parsePortRange(text: string): PortRange | undefined {
  if (text === '') return undefined
  const [, from, to] = /^(\d{1,5})-(\d{1,5})$/.exec(text) ?? []
  const [first, last] = [Number(from), Number(to)]
  if (!(first >= 1024 && last >= first && last <= 65_535))
    throw new Error('must be a range of ports from 1024 to 65535, such as 20000-20999')
  return { first, last }
}
