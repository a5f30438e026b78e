import { type Tx, statement } from '../../db/db.ts'

const copyProcess = statement(
  'forks.copyProcess',
  `UPDATE app fork SET kind = a.kind, command = d.command, arguments = d.arguments, restart = d.restart FROM deployment d JOIN app a ON a.id = d.app_id
   WHERE fork.id = $1 AND d.id = $2`,
)

/** Later replicas of the fork run the program of the deployment that it was made of. */
export const keepProcess = (tx: Tx, appId: string, deploymentId: string) => tx.run(copyProcess, [appId, deploymentId])
