/** Skips tests of tutorials on machines that lack what they need. */
import { join } from 'node:path'
import type { TestContext } from 'vitest'
import { agentConfig } from '../../src/agent/base/config.ts'
import { hasToolImage, type ToolImage } from '../../src/agent/build/tool-images.ts'
import { hasProgram } from '../../src/lib/programs.ts'
import { driverCases } from '../support/agent/hypervisor.ts'
import { databaseImages } from '../support/database-image.ts'
import type { Reader } from './reader.ts'

const { cacheDir } = agentConfig({ dataDir: '/', hostName: 'test' })

/** Skips the test if real VMs cannot run on this machine. */
export async function withVms(context: TestContext): Promise<void> {
  const installed = await Promise.all(['qemu-system-x86_64', 'script'].map(hasProgram))
  context.skip(process.getuid?.() !== 0 || !installed.every(Boolean), 'no VMs can run here: needs root and QEMU')
}

/**
 * Returns environment variables that select gVisor if it works here, for tutorials that need no particular hypervisor:
 * emulation takes more than four times the CPU time. The first tutorial uses emulation, as readers do who have not
 * installed a hypervisor.
 */
export async function fastGuests(): Promise<Readonly<Record<string, string>>> {
  const [gvisor] = (await driverCases()).filter(({ spec, skip }) => spec.hypervisor === 'gvisor' && !skip)
  const runsc = gvisor?.config.programs?.runsc
  return runsc ? { MOTE_RUNSC_BIN: runsc } : {}
}

/** Skips the test if the builder images are missing: building them takes minutes. */
export function withImages(context: TestContext, ...needed: readonly ToolImage[]): void {
  const lacking = needed.filter(name => !hasToolImage(cacheDir, name))
  context.skip(lacking.length > 0, `no images ${lacking.join(', ')}; make them with: mote image build builder`)
}

/**
 * Skips the test if databases cannot run here.
 * @returns a function that puts the database image into the image directory of the reader's cloud
 */
export async function withDatabases(context: TestContext): Promise<(reader: Reader) => Promise<void>> {
  await withVms(context)
  const installed = await Promise.all(['ssh', 'psql'].map(hasProgram))
  context.skip(!installed.every(Boolean), 'not installed: ssh or psql')
  const images = await databaseImages().catch((error: unknown) => error)
  context.skip(typeof images !== 'string', `no image of PostgreSQL can be made here: ${String(images)}`)
  return reader => reader.addImage(join(String(images), 'postgres'))
}
