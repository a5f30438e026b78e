import type { EnvVersion } from '@mote/client'
import type { UseQueryResult } from '@tanstack/react-query'
import { History } from 'lucide-react'
import { Button } from '../../ui/button.tsx'
import { FormDialog } from '../../ui/dialog.tsx'
import { Mono } from '../../ui/layout.tsx'
import { ListCard } from '../../ui/listing.tsx'
import { toast } from '../../ui/toast.tsx'

interface HistoryProps {
  readonly title: string
  readonly query: UseQueryResult<readonly EnvVersion[]>
  /** Sets the variables back to their values in the given version. */
  readonly restore: (version: string) => Promise<unknown>
}

/** Lists the changes of variables, newest first, without values. */
export function EnvHistory({ title, query, restore }: HistoryProps) {
  return (
    <ListCard
      title={title}
      lead="Which variables were changed, when and by whom. Values are not shown."
      query={query}
      nothing={{ icon: History, title: 'No changes yet' }}
      label={title}
      keyOf={one => String(one.version)}
      columns={[
        { title: 'Version', cell: one => one.version },
        { title: 'Change', cell: changeOf },
        { title: 'By', cell: one => one.author ?? '' },
        { title: 'When', at: one => one.created_at },
      ]}
      actionsOf={one =>
        one.version === query.data?.[0]?.version ? null : <Restore version={one.version} restore={restore} />
      }
    />
  )
}

function changeOf({ set, removed, restored }: EnvVersion) {
  return (
    <>
      {restored !== null && <>Rollback to {restored}: </>}
      <Mono>{[...set.map(name => `+${name}`), ...removed.map(name => `-${name}`)].join(' ')}</Mono>
    </>
  )
}

function Restore({ version, restore }: { readonly version: number } & Pick<HistoryProps, 'restore'>) {
  return (
    <FormDialog
      title={`Roll back to version ${version}?`}
      lead="All variables get the values that they had then, as a new version. Running deployments keep theirs."
      submit="Roll back"
      trigger={open => (
        <Button look="quiet" size="small" onClick={open} aria-label={`Roll back to version ${version}`}>
          Roll back
        </Button>
      )}
      send={async () => {
        await restore(String(version))
        toast({ tone: 'good', title: `Rolled back to version ${version}` })
      }}
      fields={null}
    />
  )
}
