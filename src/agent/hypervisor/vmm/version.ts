/**
 * How a program's version compares with the one that its driver was written and tested for, as far as that one says.
 * @param text what the program says, with a version such as `v1.16.1` somewhere in it
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
