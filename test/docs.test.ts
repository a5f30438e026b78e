import { globSync, readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { controlSettings } from '../src/control/base/settings.ts'
import { errorStatus } from '../src/control/http/errors.ts'
import { gatewaySettings } from '../src/gateway/config.ts'
import { programSettings } from '../src/programs/settings.ts'

const operating = readFileSync('docs/operating.md', 'utf8')

it('docs/operating.md lists every setting with its default', () => {
  const programs = Object.values(programSettings).map(
    ({ flag, env, fallback, help }) => `| \`${flag}\` | \`${env}\` | ${fallback && `\`${fallback}\``} | ${help} |`,
  )
  const control = Object.values(controlSettings).map(
    ({ env, fallback, help }) => `| \`${env}\` | \`${JSON.stringify(fallback)}\` | ${help} |`,
  )
  const gateway = Object.values(gatewaySettings).map(
    ({ env, fallback, help }) => `| \`${env}\` | ${fallback && `\`${fallback}\``} | ${help} |`,
  )
  const missing = [...programs, ...control, ...gateway].filter(row => !operating.includes(row))
  expect(missing).toEqual([])
})

it('docs/errors.md lists every error code with its status', () => {
  const page = readFileSync('docs/errors.md', 'utf8')
  const missing = Object.entries(errorStatus).filter(([code, status]) => !page.includes(`| \`${code}\` | ${status} |`))
  expect(missing).toEqual([])
})

/**
 * Settings of nats-server with the version that introduced them. Version 2.9, the oldest supported one, rejects them
 * with "unknown field".
 */
const newerNatsSettings = { sync_interval: '2.10' }

it('documents and comments name newer nats-server settings only together with the required version', () => {
  const files = globSync(['docs/**/*.md', 'src/**/*.ts', 'packaging/*.yaml']).filter(
    file => !file.startsWith('docs/notes/'),
  )
  const named = Object.entries(newerNatsSettings).flatMap(([setting, version]) =>
    files
      .flatMap(file => readFileSync(file, 'utf8').split(/\n\s*\n|\n[ *]*[-\d]+\.? /))
      .filter(paragraph => paragraph.includes(setting))
      .map(paragraph => paragraph.includes(version)),
  )
  expect(named.length).toBeGreaterThanOrEqual(3)
  expect(named.filter(hasVersion => !hasVersion)).toEqual([])
})
