/** The documents use one word for each meaning (docs/glossary.md). To cover more texts, add a source to `texts`. */
import { globSync, readFileSync } from 'node:fs'
import { expect, it } from 'vitest'

/** Each word with the words of the glossary that replace it. */
const replaced: Readonly<Record<string, readonly string[]>> = {
  'desired state': ['wish', 'wishes', 'wished'],
  'report, notify': ['tell', 'tells', 'told', 'telling'],
  observed: ['is seen', 'was seen', 'were seen', 'not seen'],
  heartbeat: ['beat', 'beats'],
  'workflow, VM or host': ['(?<!virtual\\s)machines?(?! type)'],
  'VM record': ['notebook', 'notebooks'],
  'keyed mutex': ['take turns', 'takes turns'],
  'co-moved snapshot': ['luggage'],
  retained: ['kept'],
  quiesce: ['stands still', 'stood still', 'stand still'],
  provision: ['equip', 'equips', 'equipped'],
  process: ['the body of a VM'],
  'list of operations, price list or list of error codes': ['catalogue', 'catalogues'],
}

interface Text {
  readonly name: string
  readonly text: string
}

/** Names in the code keep their spelling. */
const withoutCode = (markdown: string) => markdown.replace(/```[\s\S]*?```/g, '').replace(/`[^`\n]*`/g, '')
/** The addresses of links are names of files. */
const withoutAddresses = (markdown: string) => markdown.replace(/\]\([^)\n]*\)/g, ']')

/** `docs/style.md` quotes the words that it advises against. */
const documents = ['README.md', ...globSync('docs/*.md')].filter(name => name !== 'docs/style.md')
const texts: readonly Text[] = documents.map(name => ({
  name,
  text: withoutAddresses(withoutCode(readFileSync(name, 'utf8'))),
}))

const word = (words: readonly string[]) => new RegExp(String.raw`\b(?:${words.join('|')})\b`, 'gi')

const findingsIn = ({ name, text }: Text): string[] =>
  Object.entries(replaced).flatMap(([better, words]) =>
    [...text.matchAll(word(words))].map(([found]) => `${name}: "${found}" (use: ${better})`),
  )

it('the documents use the words of the glossary', () => {
  expect(texts.length).toBeGreaterThan(25)
  expect(texts.flatMap(findingsIn)).toEqual([])
})

it('a replaced word is found in prose, and ignored in code', () => {
  const text = withoutCode('The wish of a VM. `vm.wish` is a name.\n```\nmachine\n```\n')
  expect(findingsIn({ name: 'page.md', text })).toEqual(['page.md: "wish" (use: desired state)'])
})
