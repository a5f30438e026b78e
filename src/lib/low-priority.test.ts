import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

const source = fileURLToPath(new URL('./low-priority.ts', import.meta.url))
const script = `const { lowerOwnPriority } = await import(${JSON.stringify(source)})
lowerOwnPriority(10)
console.log((await import('node:os')).getPriority(0))`

test.each([
  ['as usual', [], '10'],
  ['under nice 19 and without the right to raise a priority', ['nice', '-n', '19'], '19'],
])('a thread has low priority after lowering it, started %s', (_title, before, niceness) => {
  const unprivileged = process.getuid?.() === 0 ? ['setpriv', '--bounding-set=-sys_nice', '--inh-caps=-sys_nice'] : []
  const [program = '', ...args] = [...before, ...unprivileged, process.execPath, '--input-type=module', '-e', script]
  const { stdout, stderr } = spawnSync(program, args, { encoding: 'utf8' })
  expect([stdout.trim(), stderr]).toEqual([niceness, ''])
})
