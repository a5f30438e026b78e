import { readFileSync } from 'node:fs'
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

it('docs/errors.md explains every code with its status', () => {
  const page = readFileSync('docs/errors.md', 'utf8')
  const missing = Object.entries(errorStatus).filter(([code, status]) => !page.includes(`| \`${code}\` | ${status} |`))
  expect(missing).toEqual([])
})
