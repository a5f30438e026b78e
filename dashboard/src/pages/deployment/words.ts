/** Words as a shell would split them: blanks part them, quotes keep them together. Nothing else has a meaning. */
export const wordsOf = (line: string): readonly string[] =>
  [...line.matchAll(/(?:"([^"]*)"|'([^']*)'|[^\s"']+)+/g)].map(([word]) =>
    word.replaceAll(/"([^"]*)"|'([^']*)'/g, (_, double?: string, single?: string) => double ?? single ?? ''),
  )
