import { describe, expect, it } from 'vitest'
import { loadModel } from '../compose/load.ts'
import { stackOf } from '../compose/stack.ts'
import { passwordOf, readTemplate, templateAppName } from '../compose/template.ts'
import { download, readCatalog, templates } from './template-catalog.ts'

const all = await templates(undefined)

describe('the built-in template catalog', () => {
  it('has at least 20 templates', () => expect(all.length).toBeGreaterThanOrEqual(20))

  it.each(all.map(one => [one.name, one] as const))('template %s has no unsupported parts', async (_, template) => {
    const { name, compose, questions } = template
    const files = { read: async (path: string) => (path === 'c.yaml' ? compose : undefined) }
    const used = new Set<string>()
    const model = await loadModel(['c.yaml'], files, variable => {
      used.add(variable)
      return variable.startsWith('MOTE_') || questions.some(one => one.name === variable)
        ? `value-of-${variable}`
        : undefined
    })
    const stack = await stackOf(model, files, { name: 'shop', profiles: [], appName: templateAppName('shop') })
    expect(stack.findings).toEqual([])
    expect(questions.filter(one => !used.has(one.name))).toEqual([])
    expect(stack.services.map(({ app }) => app.app)).toContain('shop')
    // Generated passwords must be secrets, not plain variables.
    for (const { app } of stack.services)
      for (const [key, value] of Object.entries(app.env))
        if (questions.some(one => one.generate !== undefined && value.includes(`value-of-${one.name}`)))
          expect(app.secrets, `${name} ${key}`).toContain(key)
  })
})

const text = (more: string) =>
  `x-template: { title: A, description: B, category: c, website: "https://a.example"${more} }\nservices: {}`

it.each([
  ['services: {}', 'x-template is required'],
  [text('').replace('title: A, ', ''), 'needs a title'],
  [text('').replace('https', 'javascript'), 'website with https'],
  [text(', questions: [a]'), 'questions with a name'],
  [text(', questions: [{ name: A, ask: b, generate: 4 }]'), '16 to 128'],
])('a template is refused if a required part is missing or invalid: %s', (compose, message) =>
  expect(() => readTemplate('a', compose)).toThrow(message),
)

it('a catalog is refused if its JSON is invalid, or its URL is not https or has a private address', async () => {
  expect(readCatalog(JSON.stringify({ templates: { a: text('') } }))).toMatchObject([{ name: 'a', title: 'A' }])
  expect(() => readCatalog('{}')).toThrow('no "templates"')
  expect(() => readCatalog('{"templates":{"a":1}}')).toThrow('not text')
  await expect(download('http://a.example/')).rejects.toThrow('https URL')
  await expect(download('https://127.0.0.1/')).rejects.toThrow('private address')
  await expect(download('https://[::1]/')).rejects.toThrow('private address')
})

it('app names have at most 40 characters, and passwords only letters and digits', () => {
  expect(templateAppName('shop')('app')).toBe('shop')
  expect(templateAppName('shop')('db')).toBe('shop-db')
  expect(templateAppName('a'.repeat(40))('db')).toMatch(/^a{30}-[0-9a-f]{8}$/)
  expect(passwordOf(new Uint8Array(32).fill(255), 32)).toMatch(/^[A-Za-z2-9]{32}$/)
})
