/** Splits a line into arguments like a shell: at blanks, except inside quotes. Nothing else has a special meaning. */
export const wordsOf = (line: string): readonly string[] =>
  [...line.matchAll(/(?:"([^"]*)"|'([^']*)'|[^\s"']+)+/g)].map(([word]) =>
    word.replaceAll(/"([^"]*)"|'([^']*)'/g, (_, double?: string, single?: string) => double ?? single ?? ''),
  )
