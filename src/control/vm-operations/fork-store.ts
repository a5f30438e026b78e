import { type Tx, statement } from '../../db/db.ts'

const copyProcess = statement(
  'forks.copyProcess',
  `UPDATE app fork SET kind = a.kind, command = d.command, arguments = d.arguments, restart = d.restart FROM deployment d JOIN app a ON a.id = d.app_id
   WHERE fork.id = $1 AND d.id = $2`,
)

const copyFiles = statement(
  'forks.copyFiles',
  `INSERT INTO app_file (app_id, path, mode, content, size_bytes)
   SELECT $1, path, mode, content, octet_length(content) * 3 / 4 FROM deployment_file WHERE deployment_id = $2 AND content IS NOT NULL`,
)

/** Later replicas of the fork run the program of the deployment that it was made of. */
export async function keepProcess(tx: Tx, appId: string, deploymentId: string): Promise<void> {
  await Promise.all([tx.run(copyProcess, [appId, deploymentId]), tx.run(copyFiles, [appId, deploymentId])])
}
