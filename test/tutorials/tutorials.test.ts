// once-is-enough: tests documents and the built program, not the database.
/** Every tutorial works as written: its commands run in their order, from the built program, on real VMs. */
import { globSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { agentConfig } from '../../src/agent/base/config.ts'
import { hasToolImage } from '../../src/agent/build/tool-images.ts'
import { hasProgram } from '../../src/lib/programs.ts'
import { minutes } from '../../src/lib/duration.ts'
import { databaseImages } from '../support/database-image.ts'
import { newReader, type Reader } from './reader.ts'

/** In the order in which they refer to each other: the first one starts the cloud and signs in. */
const inOrder = ['docs/tutorials/first-app.md', 'docs/tutorials/database.md', 'docs/tutorials/worker-and-cron.md']

const { cacheDir } = agentConfig({ dataDir: '/', hostName: 'test' })
const lacking = (['node', 'builder'] as const).filter(name => !hasToolImage(cacheDir, name))
/** Making them takes minutes. */
const whyNoNode = lacking.length > 0 ? `no images ${lacking.join(', ')}; make them with: mote image build builder` : ''
const canRunVms = process.getuid?.() === 0 && (await hasProgram('qemu-system-x86_64')) && (await hasProgram('script'))

it('are all in the order', () => expect(globSync('docs/tutorials/*.md').toSorted()).toEqual(inOrder.toSorted()))

let reader: Reader
beforeAll(async () => {
  if (canRunVms) reader = await newReader()
}, minutes(2))
afterAll(async () => {
  if (canRunVms) await reader[Symbol.asyncDispose]()
}, minutes(2))

it.runIf(canRunVms)('the first app', { timeout: minutes(12) }, () => reader.follow('docs/tutorials/first-app.md'))

it('a database', { timeout: minutes(12) }, async context => {
  context.skip(!canRunVms, 'no VMs can run here: needs root and QEMU')
  const lacking = (await Promise.all(['ssh', 'psql'].map(async name => ((await hasProgram(name)) ? '' : name)))).join(
    ' ',
  )
  context.skip(lacking.trim() !== '', `not installed: ${lacking}`)
  const images = await databaseImages().catch((error: unknown) => error)
  context.skip(typeof images !== 'string', `no image of PostgreSQL can be made here: ${String(images)}`)
  await reader.addImage(join(String(images), 'postgres'))
  await reader.follow('docs/tutorials/database.md')
})

it('a worker and a scheduled job', { timeout: minutes(15) }, async context => {
  context.skip(!canRunVms, 'no VMs can run here: needs root and QEMU')
  context.skip(whyNoNode !== '', whyNoNode)
  await reader.follow('docs/tutorials/worker-and-cron.md')
})
