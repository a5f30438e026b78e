// Not repeated on the distribution's PostgreSQL: this file tests requests and output, not the database.
/** Control characters: requests with one in a name are rejected, and the CLI never prints one to a terminal. */
import { globSync, readFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { rawTextMark } from '../../src/control/http/types.ts'
import { facts, table } from '../../src/cli/output.ts'
import { hasControls, printable, printableInColour, printableLine } from '../../src/lib/printable.ts'
import type { Identity } from '../support/identity.ts'
import { type Belongings, bodyOf, type Case, everyOperation, pathOf, settle, startWholeApi } from './cases.ts'

let api: Identity
let own: Belongings
beforeAll(async () => {
  api = await startWholeApi()
  own = await settle(api)
})
afterAll(() => api[Symbol.asyncDispose]())

/**
 * Fields that may contain control characters: secrets, files and values that never appear in lists, e-mails or logs.
 */
const rawFields = [
  'register.password',
  'login.password',
  'changePassword.current_password',
  'changePassword.new_password',
  'changeEmail.password',
  'resetPassword.new_password',
  'deleteMe.password',
  'disableTotp.password',
  'verifyTotp.password',
  'addSshKey.public_key',
  'putAppEnv.value',
  'putEnvGroupVariable.value',
  'putGitCredential.known_hosts',
  'setDatabaseBackupTarget.ca_certificate',
  'execInVm.command',
  'openVmSession.command',
  // The command of a job may be a script with line breaks. The CLI escapes it when it prints it.
  'putJob.command',
  'openVmSession.cwd',
  'createVmDirectory.path',
  'moveVmFile.path',
  'moveVmFile.to',
]

interface Schema {
  readonly type?: string | readonly string[]
  readonly items?: Schema
  readonly properties?: Readonly<Record<string, Schema>>
}
const typesOf = ({ type }: Schema) => (type === undefined ? [] : [type].flat())
const isRaw = (schema: Schema): boolean =>
  Reflect.get(schema, rawTextMark) === true || (schema.items !== undefined && isRaw(schema.items))
const fieldsOf = (schema: unknown) => Object.entries((schema as Schema | undefined)?.properties ?? {})

/** Texts with ESC, BEL, a C1 control character, line breaks, a bidirectional override or DEL. */
const samples = ['a\u001b]0;owned\u0007b', 'a\u001b[2Jb', 'a\u009b2Jb', 'a\nb', 'a\u202eb', 'a\u2028b', 'a\u007fb']

it('only listed request fields accept control characters', () => {
  const found = everyOperation(api).flatMap(({ id, operation }) =>
    fieldsOf(operation.body)
      .filter(([, schema]) => isRaw(schema))
      .map(([name]) => `${id}.${name}`),
  )
  expect(found.toSorted()).toEqual(rawFields.toSorted())
})

describe('a control character in a request', () => {
  const send = (one: Case, path: string, body: object | undefined) =>
    api.call(one.operation.method, path, { token: own.person.token, ...(body === undefined ? {} : { body }) })

  it('is rejected in every field of a body', async () => {
    const accepted: string[] = []
    for (const one of everyOperation(api)) {
      const example = bodyOf(one)
      if (example === undefined || one.operation.upload || one.operation.answer === 'html') continue
      for (const [name, schema] of fieldsOf(one.operation.body)) {
        if (isRaw(schema)) continue
        const isList = typesOf(schema).includes('array')
        const isText = typesOf(schema).includes('string') || (isList && typesOf(schema.items ?? {}).includes('string'))
        const isMap = typesOf(schema).includes('object') && schema.properties === undefined
        if (!isText && !isMap) continue
        for (const sample of samples) {
          const values = isMap ? [{ x: sample }, { [sample]: 'x' }] : [isList ? [sample] : sample]
          for (const value of values) {
            const reply = await send(one, pathOf(one, own.params), { ...example, [name]: value })
            if (reply.status !== 400) accepted.push(`${one.id}.${name}: ${reply.status}`)
          }
        }
      }
    }
    expect(accepted).toEqual([])
  })

  it('is rejected in paths and query parameters', async () => {
    const accepted: string[] = []
    for (const one of everyOperation(api)) {
      // Send only one of the samples: an event stream that accepted a sample would remain open.
      const [sample = ''] = samples
      for (const [name] of fieldsOf(one.operation.params)) {
        const path = pathOf(one, { ...own.params, [name]: sample })
        const { status } = await send(one, path, bodyOf(one))
        if (![400, 401, 404].includes(status)) accepted.push(`${one.id} ${name}: ${status}`)
      }
      for (const [name, schema] of fieldsOf(one.operation.query)) {
        if (!typesOf(schema).includes('string')) continue
        const path = `${pathOf(one, own.params)}?${new URLSearchParams({ [name]: sample }).toString()}`
        const { status } = await send(one, path, bodyOf(one))
        if (![400, 401, 404].includes(status)) accepted.push(`${one.id} ?${name}: ${status}`)
      }
    }
    expect(accepted).toEqual([])
  })
})

describe('the output of the CLI', () => {
  const escape = String.fromCharCode(27)

  it.each(samples)('cannot control a terminal with %j', sample => {
    for (const shown of [printable(sample), printableLine(sample), printableInColour(sample)])
      expect(hasControls(shown.replaceAll('\n', ''))).toBe(false)
    expect(JSON.parse(printable(JSON.stringify({ sample })))).toEqual({ sample })
    expect(
      hasControls(
        printableInColour(table(['NAME'], [[sample]]))
          .replaceAll('\n', '')
          .replaceAll(/\[\d+m/g, ''),
      ),
    ).toBe(false)
  })

  it('keeps color codes and no other escape sequences', () => {
    const red = `${escape}[1;31mred${escape}[39m`
    expect(printableInColour(red)).toBe(red)
    for (const code of ['[8m', '[0;8m', '[08;31m', '[2J', '[?25l', ']8;;http://x\u0007', '[31', 'c', '(0'])
      expect(printableInColour(`${escape}${code}x`)).not.toContain(escape)
  })

  it('shows a value with line breaks on one line', () => {
    expect(table(['A'], [['x\ny']]).split('\n')).toHaveLength(2)
    expect(facts({ name: 'x\r\ny' }).split('\n')).toHaveLength(1)
  })

  it('of all commands is written by one function', () => {
    /** Files that write directly, but only fixed text, never values of users. */
    const others = ['src/cli/terminal.ts', 'src/cli/commands/programs.ts']
    const direct = globSync('src/cli/**/*.ts').filter(
      file =>
        !file.endsWith('.test.ts') &&
        !others.includes(file) &&
        /process\.(stdout|stderr)\.write|console\.(log|error|warn|info)/.test(readFileSync(file, 'utf8')),
    )
    expect(direct).toEqual([])
  })
})
