/** Restart policies: what happens to VMs whose programs have ended. */
import { type Tx, statement } from '../../db/db.ts'
import type { VmFacts } from './rules.ts'

export const restartPolicies = ['always', 'on-failure', 'never'] as const

/** Restart settings, named as in the database and in the API. */
export interface RestartSettings {
  readonly policy: (typeof restartPolicies)[number]
  /** Maximum number of restarts; null: as many as the installation allows. */
  readonly max_restarts: number | null
}

export interface RestartFacts {
  /** Restart settings of the app; null: programs are always restarted, as often as the installation allows. */
  readonly restart: RestartSettings | null
  /**
   * Number of VMs whose programs ended with code 0 and were not to be restarted. These VMs were removed and are not
   * replaced.
   */
  readonly finished: number
  readonly appKind: 'web' | 'worker'
}

/** SQL columns of `RestartFacts` for a deployment `d` of an app `a`. */
export const restartColumns = `d.restart, d.finished, a.kind AS "appKind"`

type Ends = Pick<RestartFacts, 'restart' | 'finished'>

/** Returns whether the VM's program has ended with code 0 and is not to be restarted. */
export const hasFinished = ({ restart }: Ends, vm: VmFacts): boolean =>
  vm.observedState === 'crashed' && vm.exitCode === 0 && (restart?.policy ?? 'always') !== 'always'

/** Returns the number of VMs that the deployment should have. VMs whose programs have finished need no successor. */
export const wantedVms = ({ desiredReplicas, finished }: Ends & { readonly desiredReplicas: number }): number =>
  Math.max(Math.max(desiredReplicas, 1) - finished, 0)

const countFinished = statement(
  'deployments.countFinished',
  `UPDATE deployment SET finished = finished + $2, updated_at = now() WHERE id = $1`,
)
const countReplaced = statement(
  'deployments.countReplaced',
  `UPDATE deployment SET replaced_at = now(),
     replaced = CASE WHEN replaced_at < now() - make_interval(secs => $2) THEN 1 ELSE replaced + 1 END
   WHERE id = $1`,
)
export const finishedSome = (tx: Tx, id: string, vms: number) => tx.run(countFinished, [id, vms])
/** Counts a replacement of a crashed VM. The count starts again at 1 after `quietSeconds` without a replacement. */
export const replacedOne = (tx: Tx, id: string, quietSeconds: number) => tx.run(countReplaced, [id, quietSeconds])
