import { existsSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { exceptions, linearOnes, regexLiterals, textOf } from './support/regexes.ts'

/** A pattern that tries the rest of a text from each position holds the event loop for seconds at 64 KiB. */
describe('the regular expressions of the program', () => {
  const literals = regexLiterals()
  const linear = linearOnes()

  it('take linear time, or get only short text of the host', () => {
    expect(literals.length).toBeGreaterThan(400)
    const unknown = literals.filter(one => !linear.has(textOf(one)) && !Object.hasOwn(exceptions, one.file))
    expect(unknown, 'check new ones with: npm run regexes').toEqual([])
  })

  it('have a list without those that are gone', () => {
    const used = new Set(literals.map(textOf))
    expect(
      [...linear].filter(one => !used.has(one)),
      'remove them with: npm run regexes',
    ).toEqual([])
    expect(Object.keys(exceptions).filter(file => !existsSync(file))).toEqual([])
  })
})
