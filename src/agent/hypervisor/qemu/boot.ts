import { join } from 'node:path'
import { makeScratch } from '../../disk/scratch.ts'
import type { GuestKernel } from '../../guest/kernel.ts'
import type { RunningVm } from '../driver.ts'
import type { PrepareContext } from '../../base/prepare-context.ts'
import { beginning } from '../identity.ts'
import { readNotes } from '../prepare.ts'
import { isDiskFull } from '../../base/disk-full.ts'
import { isNetworkFault } from './host-faults.ts'
import { scratchFile } from '../snapshot-files.ts'
import { type Launch, launch } from './launch.ts'
import { bootedVm, keyOf, startFromTemplate, takeTemplate, templateArgs } from './template.ts'
import type { TemplateClaim, Templates } from './templates.ts'

export interface BootDeps {
  readonly cacheDir: string
  readonly templates: Templates
  readonly onError: (error: unknown) => void
}

export interface BootPlan extends Omit<Launch, 'scratch' | 'start' | 'env' | 'fromSeq'> {
  readonly kernel: GuestKernel
  readonly kernelArgs: string
}

/**
 * Starts a new VM from its template if one exists, otherwise boots its kernel and creates the template. If the start
 * from a template fails, the template is deleted (unless the disk is full) and the VM boots its kernel.
 * @throws StepError `network_failed` if the VM's firewall rules could not be loaded; Error if the boot fails
 */
export async function bootVm(
  deps: BootDeps,
  plan: BootPlan,
  madeBy: string,
  context: PrepareContext,
): Promise<RunningVm> {
  const { templates } = deps
  // VMs with additional drives (builds) have no template.
  if ((plan.home.drives ?? []).length > 0) return bootCold(deps, plan, undefined, madeBy, context)
  const key = await keyOf({ plan, kernel: plan.kernel, kernelArgs: plan.kernelArgs, madeBy })
  const template = await templates.find(key)
  if (template !== undefined) {
    try {
      return await startFromTemplate(deps, plan, template, madeBy, context)
    } catch (error) {
      context.signal.throwIfAborted()
      // Without firewall rules, a boot of the kernel would fail for the same reason, only later.
      if (isNetworkFault(error)) throw error
      deps.onError(error)
      if (!isDiskFull(error)) await templates.distrust(key)
    }
  }
  await using claim = await templates.claim(key)
  return bootCold(deps, plan, claim ?? undefined, madeBy, context)
}

async function bootCold(
  { cacheDir, onError }: BootDeps,
  plan: BootPlan,
  claim: TemplateClaim | undefined,
  madeBy: string,
  context: PrepareContext,
): Promise<RunningVm> {
  const { home, prepared, kernel } = plan
  const scratch = () => makeScratch(cacheDir, join(home.dir, scratchFile), home.spec.diskMib, plan.launcher.run)
  const kernelArgs = plan.kernelArgs + (claim ? templateArgs(readNotes(prepared).baseType) : '')
  const start = { kind: 'boot', kernel: kernel.kernel, initrd: kernel.initrd, kernelArgs } as const
  return launch({ ...plan, scratch, start, fromSeq: 0 }, context, async launched => {
    const { guest, unlessEnded } = launched
    await context.time('boot', () => unlessEnded(guest.ready))
    if (claim) {
      const taken = claim.fill(dir => takeTemplate(launched, plan, dir))
      // If the template cannot be taken, the VM starts without one.
      await context.time('template', () => unlessEnded(taken).catch(onError))
      await unlessEnded(guest.request(`begin ${beginning()}`, 0))
    }
    return bootedVm(launched, plan, madeBy)
  })
}
