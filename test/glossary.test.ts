/** The documents use one word for each meaning (docs/glossary.md). To cover more texts, add a source to `texts`. */
import { globSync, readFileSync } from 'node:fs'
import { expect, it } from 'vitest'

/** Words of the glossary, each with the words (or patterns) that it replaces. */
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

/** Removes code, because identifiers may contain replaced words. */
const withoutCode = (markdown: string) => markdown.replace(/```[\s\S]*?```/g, '').replace(/`[^`\n]*`/g, '')
/** Removes link targets, because file names may contain replaced words. */
const withoutAddresses = (markdown: string) => markdown.replace(/\]\([^)\n]*\)/g, ']')

/** Documents to check; `docs/style.md` quotes words that it advises against. */
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

it("documents use the glossary's words, not the words that these replace", () => {
  expect(texts.length).toBeGreaterThan(25)
  expect(texts.flatMap(findingsIn)).toEqual([])
})

it('a replaced word is reported in prose, and ignored in code', () => {
  const text = withoutCode('The wish of a VM. `vm.wish` is a name.\n```\nmachine\n```\n')
  expect(findingsIn({ name: 'page.md', text })).toEqual(['page.md: "wish" (use: desired state)'])
})
