/** Final statuses: the deployment does not leave them by itself. */
export const ends: Readonly<Record<string, 'serves' | 'failed'>> = {
  running: 'serves',
  sleeping: 'serves',
  failed: 'failed',
  stopped: 'failed',
  cancelled: 'failed',
  superseded: 'failed',
  deleted: 'failed',
}
