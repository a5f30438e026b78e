/**
 * Returns whether a program's version is older or newer than the tested one, or equal to it as far as the tested one is
 * specified.
 * @param text the program's output, which contains a version such as `v1.16.1`
 * @param tested numbers with dots, such as `1.16`
 */
export function ageOf(text: string, tested: string): 'older' | 'tested' | 'newer' {
  const found = numbers(/v?(\d+(?:\.\d+)*)/.exec(text)?.[1] ?? '')
  for (const [index, wanted] of numbers(tested).entries()) {
    const got = found[index] ?? 0
    if (got !== wanted) return got < wanted ? 'older' : 'newer'
  }
  return 'tested'
}

const numbers = (version: string) => version.split('.').map(Number)
