/**
 * `npm run regexes` checks new regular expressions with recheck (https://makenowjust-labs.github.io/recheck/), which
 * searches for inputs that take more than linear time, and stores the expressions that are linear. Recheck has 58 MiB,
 * so this script downloads it into `.cache` when a new expression must be checked.
 */
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { exceptions, linearFile, linearOnes, regexLiterals, textOf } from '../test/support/regexes.ts'

const version = '4.5.0'
const dir = join(import.meta.dirname, '..', '.cache', `recheck-${version}`)
const program = join(dir, 'node_modules', 'recheck', 'lib', 'main.js')
if (!existsSync(program)) {
  mkdirSync(dir, { recursive: true })
  const how = ['install', '--prefix', dir, '--no-save', '--no-audit', '--no-fund', `recheck@${version}`]
  const { status } = spawnSync('npm', how, { stdio: 'inherit' })
  if (status !== 0) throw new Error(`npm could not fetch recheck ${version}`)
}
const { checkSync } = Object(await import(pathToFileURL(program).href))

const say = (line: string) => void process.stdout.write(`${line}\n`)

const known = existsSync(linearFile) ? linearOnes() : new Set<string>()
const linear = new Set<string>()
let slow = 0
for (const one of regexLiterals()) {
  const text = textOf(one)
  if (known.has(text) || linear.has(text)) {
    linear.add(text)
    continue
  }
  if (Object.hasOwn(exceptions, one.file)) continue
  // Recheck does not support the flags d and v.
  const found = checkSync(one.source, one.flags.replace('v', 'u').replace('d', ''), { timeout: 10_000 })
  if (found.status === 'safe') linear.add(text)
  else {
    slow++
    say(`${one.file}: ${text}\n  ${found.status} ${found.complexity?.summary ?? ''} ${found.attack?.pattern ?? ''}`)
  }
}
writeFileSync(linearFile, `${[...linear].toSorted().join('\n')}\n`)
say(`${linear.size} take linear time, ${slow} are not known to.`)
process.exitCode = slow === 0 ? 0 : 1
