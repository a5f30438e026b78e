import type { Deps } from '../base/deps.ts'
import { agentClient } from '../hosts/index.ts'
import { invalidState } from '../http/errors.ts'
import type { Handlers } from '../http/operation.ts'
import type { vmOperations } from '../vms/index.ts'
import { jobOf, placedVm, refusalOf } from './job.ts'

type ExecOperations = Pick<typeof vmOperations, 'execInVm'>

export const execHandlers = (deps: Pick<Deps, 'db' | 'bus' | 'config'>): Handlers<ExecOperations> => ({
  execInVm: {
    write: async call => {
      const d = await jobOf(deps.db, call)
      const placed = await placedVm(deps, deps.db, d)
      if (placed.vm.observedState === 'paused') throw invalidState('The VM is paused. Resume it first.')
      const { command, timeout_seconds } = call.body
      const request = { vmId: placed.vm.id, command, timeoutMs: (timeout_seconds ?? 10) * 1000 }
      const answer = await agentClient(deps.bus, placed.host.id)
        .exec(request, call.signal)
        .catch((cause: unknown) => Promise.reject(refusalOf(cause, placed)))
      return async () => {
        // The audit entry names only the program, because its arguments may contain secrets.
        call.audit({
          action: 'vm.exec',
          resourceType: 'deployment',
          resourceId: d.id,
          details: { vm_id: placed.vm.id, program: command[0] },
        })
        return { exit_code: answer.exitCode, stdout: answer.stdout, stderr: answer.stderr, truncated: answer.truncated }
      }
    },
  },
})
