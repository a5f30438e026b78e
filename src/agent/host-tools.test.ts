import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { packages } from '../../scripts/system-packages.mjs'
import { hostTools, inspectTools, rangeDetail, versionIn } from './host-tools.ts'

test.each([
  ['nftables v1.0.6 (Lester Gooch #5)', '1.0.6'],
  ['mke2fs 1.47.0 (5-Feb-2023)\n\tUsing EXT2FS Library version 1.47.0', '1.47.0'],
  ['mkfs.erofs (erofs-utils) 1.8.6', '1.8.6'],
  ['ip utility, iproute2-6.15.0, libbpf 1.5.0', '6.15.0'],
  ['skopeo version 1.18.0', '1.18.0'],
  ['no number', undefined],
])('the version number of a program is found in its output "%s"', (text, version) => {
  expect(versionIn(text)).toBe(version)
})

test('a version outside the tested range is reported as older or newer', () => {
  expect(rangeDetail('1.0.6', '1.0', '1.1')).toBe('1.0.6')
  expect(rangeDetail('1.1.9', '1.0', '1.1')).toBe('1.1.9')
  expect(rangeDetail('0.9', '1.0', '1.1')).toBe('0.9, older than the tested 1.0 to 1.1')
  expect(rangeDetail('2.0', '1.0', '1.1')).toBe('2.0, newer than the tested 1.0 to 1.1')
})

test('every program of the host is either found with its version or reported with the package to install', async () => {
  for (const { name, ok, detail, fix } of await inspectTools()) {
    expect(detail, name).not.toBe('')
    expect(fix === null, name).toBe(ok === 'yes')
  }
})

const agent = import.meta.dirname
const sources = globSync('**/*.ts', { cwd: agent })
  .filter(file => file !== 'host-tools.ts' && !file.endsWith('.test.ts'))
  .map(file => readFileSync(join(agent, file), 'utf8'))
  .join('')
const installs = new Map(packages.flatMap(({ name, probe }) => probe.map(program => [program, name] as const)))

test.each(hostTools)('the agent runs $programs, which is in the package $package', ({ programs, package: name }) => {
  for (const program of programs) expect(sources, program).toContain(`'${program}'`)
  const installed = programs.map(program => installs.get(program)).filter(found => found !== undefined)
  if (installed.length > 0) expect(installed).toContain(name)
})
