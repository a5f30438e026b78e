/** Every decision has the same form, is in the index, and exists where a file refers to it. */
import { globSync, readFileSync } from 'node:fs'
import { basename } from 'node:path'
import { describe, expect, it } from 'vitest'

const dir = 'docs/decisions'
const files = globSync(`${dir}/0*.md`)
  .map(file => basename(file))
  .toSorted()
const numbers = new Set(files.map(file => Number(file.slice(0, 4))))
/** One page. */
const mostLines = 45

const titleOf = (text: string) => /^# \d+\. (.+)\n/.exec(text)?.[1]
const statusOf = (text: string) => /^Status: (accepted|superseded by \d+|rejected)\b/m.exec(text)?.[1]

describe.each(files)('%s', file => {
  const text = readFileSync(`${dir}/${file}`, 'utf8')

  it('has its number in its title', () => expect(text.startsWith(`# ${Number(file.slice(0, 4))}. `)).toBe(true))
  it('has a status', () => expect(statusOf(text)).toBeDefined())
  it('fits on a page', () => expect(text.split('\n').length - 1).toBeLessThanOrEqual(mostLines))
  it('has context, decision and consequences, in this order', () => {
    const headings = [...text.matchAll(/^## (.+)$/gm)].map(match => match[1])
    expect(headings).toEqual(['Context', 'Decision', 'Consequences'])
  })
})

it('the index lists every decision with its title and status', () => {
  const index = readFileSync(`${dir}/README.md`, 'utf8')
  const listed = [...index.matchAll(/^\| \[\d{4}\]\(([^)]+)\) \| (.+?) \| (.+?) \| .+ \|$/gm)]
  const expected = files.map(file => {
    const text = readFileSync(`${dir}/${file}`, 'utf8')
    return [file, titleOf(text), statusOf(text)]
  })
  expect(listed.map(([, file, title, status]) => [file, title, status])).toEqual(expected)
})

it('no two decisions have the same number', () => expect(numbers.size).toBe(files.length))

/** The text of an applied migration may not change, so it may name a file that was renamed since. */
const isFrozen = (file: string) => file.startsWith('src/db/migrations/')

it('every decision that a file refers to exists', () => {
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
