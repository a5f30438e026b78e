/**
 * Client generators, in pinned versions installed below .cache: how to generate a client, and how to run its journey (a
 * sequence of calls).
 */
import { spawnSync } from 'node:child_process'
import { cpSync, existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { run } from '../../src/lib/exec.ts'
import { pythonTool } from '../support/python-tool.ts'

const here = import.meta.dirname
const cache = join(here, '../../.cache')
const versions = {
  openapiTypescript: '7.13.0',
  openapiFetch: '0.17.0',
  // Pinned to TypeScript 5, because openapi-typescript uses the compiler API, which TypeScript 7 lacks.
  typescript: '5.9.3',
  openapiPythonClient: '0.29.1',
  oapiCodegen: 'v2.8.2',
}

export interface Client {
  /** Names of the operations that the generated client has, as the generator spells them. */
  readonly operations: readonly string[]
  /** @param args base URL, and e-mail address and password of a new account @returns the output of the journey */
  journey(...args: readonly string[]): Promise<string>
}

export interface Generator {
  readonly language: string
  /** Returns what is missing on this machine and how to get it, or undefined if nothing is. */
  missing(): string | undefined
  /** @param dir an empty folder @param document path of the OpenAPI document */
  generate(dir: string, document: string): Promise<Client>
}

const namesIn = (text: string, pattern: RegExp) => [...text.matchAll(pattern)].map(([, name = '']) => name)

const npmDir = join(cache, `openapi-typescript-${versions.openapiTypescript}`)
const typescript: Generator = {
  language: 'typescript',
  missing() {
    if (existsSync(join(npmDir, 'node_modules/openapi-fetch'))) return undefined
    const packages = [
      `openapi-typescript@${versions.openapiTypescript}`,
      `openapi-fetch@${versions.openapiFetch}`,
      `typescript@${versions.typescript}`,
    ]
    const flags = ['--no-audit', '--no-fund', '--ignore-scripts']
    const installed = spawnSync('npm', ['install', '--prefix', npmDir, ...flags, ...packages])
    return installed.status === 0 ? undefined : 'the npm registry cannot be reached, so openapi-typescript is missing'
  },
  async generate(dir, document) {
    const bin = join(npmDir, 'node_modules/.bin')
    cpSync(join(here, 'typescript'), dir, { recursive: true })
    cpSync(join(npmDir, 'node_modules'), join(dir, 'node_modules'), { recursive: true })
    const types = join(dir, 'mote.ts')
    await run(join(bin, 'openapi-typescript'), [document, '--output', types])
    const strict = ['--noEmit', '--strict', '--allowImportingTsExtensions', '--skipLibCheck', '--module', 'nodenext']
    const roots = ['--typeRoots', join(here, '../../node_modules/@types'), '--types', 'node']
    await run(join(bin, 'tsc'), [...strict, '--target', 'es2024', '--lib', 'es2024,dom', ...roots, 'journey.ts'], {
      cwd: dir,
    })
    const [, operations = ''] = readFileSync(types, 'utf8').split('export interface operations {')
    return {
      operations: namesIn(operations, /^ {4}(\w+): \{$/gm),
      journey: (...args) => run(process.execPath, [join(dir, 'journey.ts'), ...args], { cwd: dir }),
    }
  },
}

const python: Generator = {
  language: 'python',
  missing() {
    const tool = pythonTool('openapi-python-client', versions.openapiPythonClient)
    return 'missing' in tool ? tool.missing : undefined
  },
  async generate(dir, document) {
    const tool = pythonTool('openapi-python-client', versions.openapiPythonClient)
    if ('missing' in tool) throw new Error(tool.missing)
    const config = join(here, 'python/openapi-python-client.yaml')
    const target = ['--output-path', dir, '--overwrite', '--config', config]
    await run(join(tool.bin, 'openapi-python-client'), ['generate', '--path', document, ...target])
    cpSync(join(here, 'python'), dir, { recursive: true })
    const api = join(dir, 'mote_client/api')
    const files = readdirSync(api, { recursive: true, encoding: 'utf8' }).filter(
      file => file.endsWith('.py') && !file.endsWith('__init__.py'),
    )
    return {
      operations: files.map(file => file.replace(/^.*\//, '').replace(/\.py$/, '')),
      journey: (...args) => run(join(tool.bin, 'python'), [join(dir, 'journey.py'), ...args], { cwd: dir }),
    }
  },
}

const go: Generator = {
  language: 'go',
  missing() {
    return spawnSync('go', ['version']).status === 0 ? undefined : 'Go is missing: see https://go.dev/doc/install'
  },
  async generate(dir, document) {
    cpSync(join(here, 'go'), dir, { recursive: true })
    const command = `github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@${versions.oapiCodegen}`
    await run('mkdir', ['-p', join(dir, 'mote')])
    await run('go', ['run', command, '--config', 'oapi-codegen.yaml', document], { cwd: dir })
    await run('go', ['build', '-o', 'journey', '.'], { cwd: dir })
    const text = readFileSync(join(dir, 'mote/mote.gen.go'), 'utf8')
    const calls = namesIn(text, /^func \(c \*ClientWithResponses\) (\w+?)(?:WithBody)?WithResponse\(/gm)
    return {
      operations: [...new Set(calls)],
      journey: (...args) => run(join(dir, 'journey'), [...args], { cwd: dir }),
    }
  },
}

export const generators: readonly Generator[] = [typescript, python, go]
