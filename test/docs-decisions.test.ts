/** Decision records (docs/decisions) have the same form and are in the index; references to them are valid. */
import { globSync, readFileSync } from 'node:fs'
import { basename } from 'node:path'
import { describe, expect, it } from 'vitest'

const dir = 'docs/decisions'
const files = globSync(`${dir}/0*.md`)
  .map(file => basename(file))
  .toSorted()
const numbers = new Set(files.map(file => Number(file.slice(0, 4))))
/** Maximum length of a decision record: one page. */
const mostLines = 45

const titleOf = (text: string) => /^# \d+\. (.+)\n/.exec(text)?.[1]
const statusOf = (text: string) => /^Status: (accepted|superseded by \d+|rejected)\b/m.exec(text)?.[1]

describe.each(files)('decision record %s', file => {
  const text = readFileSync(`${dir}/${file}`, 'utf8')

  it('begins with the number in its file name', () =>
    expect(text.startsWith(`# ${Number(file.slice(0, 4))}. `)).toBe(true))
  it('is accepted, superseded or rejected', () => expect(statusOf(text)).toBeDefined())
  it('fits on a page', () => expect(text.split('\n').length - 1).toBeLessThanOrEqual(mostLines))
  it('has context, decision and consequences, in this order', () => {
    const headings = [...text.matchAll(/^## (.+)$/gm)].map(match => match[1])
    expect(headings).toEqual(['Context', 'Decision', 'Consequences'])
  })
})

it('the index lists every decision record with its title and status', () => {
  const index = readFileSync(`${dir}/README.md`, 'utf8')
  const listed = [...index.matchAll(/^\| \[\d{4}\]\(([^)]+)\) \| (.+?) \| (.+?) \| .+ \|$/gm)]
  const expected = files.map(file => {
    const text = readFileSync(`${dir}/${file}`, 'utf8')
    return [file, titleOf(text), statusOf(text)]
  })
  expect(listed.map(([, file, title, status]) => [file, title, status])).toEqual(expected)
})

it('no two decision records have the same number', () => expect(numbers.size).toBe(files.length))

/** True for migrations: their text must not change, so they may name a decision file that was renamed later. */
const isFrozen = (file: string) => file.startsWith('src/db/migrations/')

it('every decision record that a file refers to exists', () => {
  const readers = globSync([
    '*.md',
    '{docs,guest,scripts,bench,packaging}/**/*.{md,ts,mjs,c,sh,yaml}',
    '{src,test,dashboard/src}/**/*.{ts,tsx,md,sql,c}',
  ]).filter(file => !file.includes('node_modules'))
  expect(readers.length).toBeGreaterThan(1000)
  const missing = readers.flatMap(file => {
    const text = readFileSync(file, 'utf8')
    const named = [...text.matchAll(/decisions\/(\d{4})(-[\w-]+\.md)?/g)].filter(([, number = '', rest]) =>
      isFrozen(file) || rest === undefined ? !numbers.has(Number(number)) : !files.includes(number + rest),
    )
    const counted = [...text.matchAll(/\bdecisions? (\d+(?:(?:, | and )\d+)*)/gi)].filter(([, list = '']) =>
      (list.match(/\d+/g) ?? []).some(number => !numbers.has(Number(number))),
    )
    const linked = file.startsWith(`${dir}/`)
      ? [...text.matchAll(/\]\((\d{4}-[\w-]+\.md)\)|\((\d{4})\)/g)].filter(([, name, number]) =>
          name === undefined ? !numbers.has(Number(number)) : !files.includes(name),
        )
      : []
    return [...named, ...counted, ...linked].map(([words]) => `${file}: ${words}`)
  })
  expect(missing).toEqual([])
})
