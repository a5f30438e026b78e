/** The worst known inputs for parsers of the control plane, which read bytes from tenants. */
import { Readable } from 'node:stream'
import { setImmediate as turn } from 'node:timers/promises'
import { parseJsonBody } from '../../src/control/http/json-body.ts'
import { parseEvent } from '../../src/control/scm/events.ts'
import { readEntries } from '../../src/control/vm-sessions/file-list.ts'
import { readProcesses } from '../../src/control/vm-sessions/process-list.ts'
import { takeSource } from '../../src/control/builds/source-archive.ts'
import { parseAppFile } from '../../src/appfile/parse.ts'
import { lazily } from '../../src/lib/once.ts'
import { settled } from '../support/hostile-peers.ts'
import { place, never, packed, deepJson, wideJson } from './inputs.ts'
import type { Case } from './measure.ts'

const limits = { maxBytes: 512 << 20, maxEntries: 50_000 }

const webhooks = lazily(() => {
  const mib = 1 << 20
  const commits = `{"commits":[${'{},'.repeat(mib / 3)}{}]}`
  const form = `payload=${'%5B'.repeat(mib / 3)}`
  return [deepJson(mib), wideJson(mib), form, '&a='.repeat(mib / 3), commits].map(text => Buffer.from(text))
})

export const controlCases: readonly Case[] = [
  {
    name: 'a request body',
    files: ['src/control/http/json-body.ts'],
    async run() {
      const mib = 1 << 20
      const pieces = ['[', '{"a":', '"a",', '"\\u0041",', '\\', '"', '1,', '[],', ' ', '"\\"",']
      const texts = [deepJson(mib), wideJson(mib), `"${'\\u0041'.repeat(mib / 6)}"`, `"${'\\'.repeat(mib)}`]
      for (const text of [...texts, ...pieces.map(piece => `[${piece.repeat(mib / piece.length)}`)])
        try {
          parseJsonBody(Buffer.from(text))
        } catch {
          // Ignore that the body is rejected: only the parser's speed matters.
        } finally {
          await turn()
        }
    },
  },
  {
    name: 'a webhook',
    files: ['src/control/scm/events.ts'],
    async run() {
      for (const body of webhooks())
        for (const style of ['github', 'gitlab'] as const) {
          parseEvent({ id: 'x', event: style === 'github' ? 'push' : 'Push Hook', style }, body)
          await turn()
        }
    },
  },
  {
    name: 'a list of processes in a VM',
    files: ['src/control/vm-sessions/process-list.ts'],
    async run() {
      for (const line of ['1 1 1 S 1 1 x\n', `1 1 1 S 1 1 ${'%ff'.repeat(1_300)}\n`, '\n', 'x']) {
        const part = Buffer.from(line.repeat(Math.ceil((1 << 16) / line.length)))
        await settled(readProcesses(Readable.from(Array.from({ length: 20 }, () => part))))
      }
    },
  },
  {
    name: 'a list of files in a VM',
    files: ['src/control/vm-sessions/file-list.ts'],
    async run() {
      for (const name of ['%ff'.repeat(4_000), 'x'.repeat(50)]) {
        const lines = Buffer.from(`f 644 1 1 /${name} \n`.repeat(Math.ceil((2 << 20) / name.length)))
        const parts = Array.from({ length: 17 }, (_, n) => lines.subarray(n << 17, (n + 1) << 17))
        await readEntries(Readable.from(parts))
      }
    },
  },
  {
    name: 'an uploaded source',
    files: ['src/control/builds/source-archive.ts', 'src/control/builds/source-rewrite.ts', 'src/lib/archive/tar.ts'],
    async run() {
      for (const data of packed()) await settled(takeSource(Readable.from([data]), place(), limits, never))
    },
  },
  {
    name: 'an app file (mote.toml)',
    files: ['src/appfile/parse.ts', 'src/appfile/locate.ts'],
    async run() {
      const floods = ['[', 'a.', '{', 'a={b=', '[[a]]\n', '"', "'''", '# \n', 'a = [\n', '\\u0061', ' ', 'é']
      const keys = Array.from({ length: 5000 }, (_, n) => `k${n} = 1\n`).join('')
      const tables = Array.from({ length: 4000 }, (_, n) => `[t.u${n}]\na = 1\n`).join('')
      const valid = [`${'a.'.repeat(30_000)}a = 1`, `a${' '.repeat(60_000)}= 1`, `a = "${'\\t'.repeat(30_000)}"`]
      for (const text of [...floods.map(one => one.repeat(60_000 / one.length)), keys, tables, ...valid])
        try {
          parseAppFile(text)
        } catch {
          // Ignore that the file is rejected: only the parser's speed matters.
        } finally {
          await turn()
        }
    },
  },
]
