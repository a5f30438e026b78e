// Not repeated on the distribution's PostgreSQL: this file uses no database.
import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import type { CellResult } from './cell.ts'
import { type Cell, cells, type Distribution, distributions } from './cells.ts'
import { cellInTurn, inTurn } from './turn.ts'
import { between, documents, merged, storedResults, type StoredResult, testedSentence } from './table.ts'

const axes = ['node', 'place', 'path'] as const
const usualOf = (distribution: Distribution) =>
  cells.filter(cell => cell.odd === null && cell.distribution === distribution)
const distinct = (values: readonly string[]) => [...new Set(values)].sort()

describe('the list of test systems', () => {
  it('has no name twice', () => {
    const names = cells.map(({ name }) => name)
    expect(distinct(names)).toHaveLength(names.length)
  })

  it.each(Object.keys(distributions) as Distribution[])(
    'has systems on %s for each value of each property: Node, user, folder and path',
    distribution => {
      for (const axis of axes)
        expect(distinct(usualOf(distribution).map(cell => cell[axis]))).toEqual(distinct(cells.map(cell => cell[axis])))
    },
  )

  it.each(['bookworm', 'trixie'] as const)(
    'has systems on %s for each pair of values of two of the properties Node, user, folder and path',
    distribution => {
      const valuesOf = (axis: (typeof axes)[number]) => distinct(cells.map(cell => cell[axis]))
      for (const [one, other] of [
        ['node', 'place'],
        ['node', 'path'],
        ['place', 'path'],
      ] as const) {
        const wanted = valuesOf(one).flatMap(first => valuesOf(other).map(second => `${first} ${second}`))
        expect(distinct(usualOf(distribution).map(cell => `${cell[one]} ${cell[other]}`))).toEqual(distinct(wanted))
      }
    },
  )

  it('has each system of a stable release without an unusual property once within 16 days', () => {
    const days = inTurn.map((_, n) => new Date(Date.UTC(2026, 10, 22 + n)))
    expect(distinct(days.map(day => cellInTurn(day).name))).toEqual(distinct(inTurn.map(({ name }) => name)))
    expect(inTurn).toHaveLength(usualOf('bookworm').length + usualOf('trixie').length)
  })
})

describe('documents with test results', () => {
  it.each(Object.entries(documents))('%s matches the stored results', (file, rendered) => {
    const text = readFileSync(file, 'utf8')
    expect(text).toBe(rendered(text, storedResults()))
  })

  const worked = ({ name }: Cell): StoredResult => ({
    cell: name,
    outcome: 'works',
    failed: null,
    coldSeconds: 60,
    warmSeconds: 10,
  })

  it('the README names a distribution without "(n of m)" only if all of its systems work', () => {
    const all = cells.filter(({ odd }) => odd === null).map(worked)
    expect(testedSentence(all)).toContain('Debian 12, 13 and unstable;')
    const [first] = usualOf('trixie')
    const broken = all.map(one =>
      one.cell === first?.name ? { ...one, outcome: 'fails' as const, failed: 'cold' } : one,
    )
    expect(testedSentence(broken)).toContain('Debian 12, 13 (7 of 8 systems) and unstable;')
    expect(testedSentence([])).toContain('no release yet;')
  })

  it('a run replaces only the results of the operating systems that it tested', () => {
    const [one, other] = usualOf('bookworm')
    if (one === undefined || other === undefined) throw new Error('BUG: bookworm has at least two test systems')
    const run: CellResult = {
      cell: other.name,
      seconds: 20,
      steps: [{ name: 'cold: answer', seconds: 12 }],
      outcome: 'fails',
      failed: 'mote logs: it ended with 1',
      log: '',
    }
    const failed = { cell: other.name, outcome: 'fails', failed: 'mote logs', coldSeconds: 12, warmSeconds: null }
    expect(merged([worked(one), worked(other)], [run])).toEqual([worked(one), failed])
  })

  it('a document without the markers of generated text is not overwritten', () => {
    expect(() => between('text', 'cells', 'table')).toThrow('markers')
  })
})
