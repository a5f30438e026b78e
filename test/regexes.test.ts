import { existsSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { exceptions, linearOnes, regexLiterals, textOf } from './support/regexes.ts'

/** A regular expression with quadratic backtracking blocks the event loop for seconds on 64 KiB of text. */
describe('the regular expressions of the program', () => {
  const literals = regexLiterals()
  const linear = linearOnes()

  it('take linear time, or are only applied to text that tenants cannot make long', () => {
    expect(literals.length).toBeGreaterThan(400)
    const unknown = literals.filter(one => !linear.has(textOf(one)) && !Object.hasOwn(exceptions, one.file))
    expect(unknown, 'check new ones with: npm run regexes').toEqual([])
  })

  it('are removed from the list of linear expressions once the program no longer contains them', () => {
    const used = new Set(literals.map(textOf))
    expect(
      [...linear].filter(one => !used.has(one)),
      'remove them with: npm run regexes',
    ).toEqual([])
    expect(Object.keys(exceptions).filter(file => !existsSync(file))).toEqual([])
  })
})
