import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'
import { clientSource } from '../../scripts/client/source.ts'
import { typeOf } from '../../scripts/client/schema.ts'
import { allOperations } from '../control/operations.ts'
import { buildOpenApi } from '../control/api-docs/openapi.ts'
import { createClient } from './index.ts'

const run = promisify(execFile)
const here = import.meta.dirname
const document = buildOpenApi(allOperations)
const stale = 'is stale; run `npm run client` and commit what it writes'

describe('the generated client', () => {
  it('matches the OpenAPI document that the server serves', async () => {
    const committed = await readFile(join(here, 'generated', 'openapi.json'), 'utf8')
    expect(JSON.parse(committed), `openapi.json ${stale}`).toEqual(JSON.parse(JSON.stringify(document)))
    const source = await readFile(join(here, 'generated', 'api.ts'), 'utf8')
    expect(source === clientSource(document), `api.ts ${stale}`).toBe(true)
  })

  it('has a type for every value', () => {
    const untyped = clientSource(document)
      .split('\n')
      .filter(line => /\bunknown\b/.test(line.replaceAll(/\/\*\*.*?\*\//g, '')))
    expect(untyped).toEqual([])
  })

  it('has a function for every operation except the WebSockets', () => {
    const requests = Object.entries(allOperations).filter(([, { answer }]) => answer !== 'socket')
    expect(Object.keys(createClient({ baseUrl: '' })).sort()).toEqual(requests.map(([id]) => id).sort())
  })

  it('cannot be generated from a schema without a TypeScript type', () => {
    expect(() => typeOf({ type: 'tuple' }, 'x')).toThrow('x: no TypeScript type')
    expect(typeOf({ type: ['string', 'null'], enum: ['a', null] }, 'x')).toBe("'a' | null")
    expect(typeOf({ type: 'array', items: { type: ['string', 'null'] } }, 'x')).toBe('readonly (string | null)[]')
  })

  it('builds as a package for plain JavaScript', async () => {
    const dir = await mkdtemp(join(tmpdir(), 'mote-client-'))
    try {
      await run('tsc', ['-p', here, '--outDir', dir], { cwd: here })
      await writeFile(join(dir, 'package.json'), '{"type":"module"}')
      const script = `import('${dir}/index.js').then(m => console.log(typeof m.createClient({ baseUrl: '' }).deploy))`
      const { stdout } = await run(process.execPath, ['-e', script], { cwd: dir })
      expect(stdout.trim()).toBe('function')
    } finally {
      await rm(dir, { recursive: true, force: true })
    }
  })
})
