import type { EnvGroup } from '@mote/client'
import { useQuery } from '@tanstack/react-query'
import { KeySquare, Layers } from 'lucide-react'
import { api } from '../api/client.ts'
import { queries, refreshAll } from '../api/queries.ts'
import { FormDialog } from '../ui/dialog.tsx'
import { Check, Field, NameField } from '../ui/form.tsx'
import { Mono } from '../ui/layout.tsx'
import { ListCard } from '../ui/listing.tsx'
import { AddButton, DestroyIcon } from '../ui/row-actions.tsx'
import { EnvHistory } from './app/env-history.tsx'

const refresh = () => refreshAll('env-groups', 'env-group', 'env-group-versions')

/** Variables that several apps of the project share. */
export function EnvGroups() {
  const groups = useQuery(queries.envGroups())
  return (
    <>
      <ListCard
        title="Environment groups"
        lead="Variables that several apps share. Attach a group on the page Environment of an app."
        create={<CreateGroup />}
        query={groups}
        nothing={{ icon: Layers, title: 'No groups', text: 'Variables that several apps need, such as API_URL.' }}
        label="Environment groups"
        keyOf={one => one.id}
        columns={[
          { title: 'Name', cell: one => <Mono className="font-medium">{one.name}</Mono> },
          { title: 'Apps', cell: one => one.apps.join(', ') },
          { title: 'Created', at: one => one.created_at },
        ]}
        actionsOf={one => (
          <DestroyIcon
            name={one.name}
            what="group"
            consequence="Its variables are deleted. Detach it from its apps first."
            send={async () => {
              await api.deleteEnvGroup({ group_name: one.name })
              await refresh()
            }}
          />
        )}
      />
      {groups.data?.map(one => (
        <Group key={one.id} group={one} />
      ))}
    </>
  )
}

function CreateGroup() {
  return (
    <FormDialog
      title="Add a group"
      submit="Add"
      trigger={open => <AddButton text="Add group" onClick={open} />}
      send={async values => {
        await api.createEnvGroup({ body: { name: values.text('name') } })
        await refresh()
      }}
      fields={<NameField maxLength={40} placeholder="shared" />}
    />
  )
}

function Group({ group: { name: group_name } }: { readonly group: EnvGroup }) {
  const variables = useQuery(queries.envGroup(group_name))
  const versions = useQuery(queries.envGroupVersions(group_name))
  return (
    <>
      <ListCard
        title={`Variables of ${group_name}`}
        create={<SetVariable group_name={group_name} />}
        query={variables}
        nothing={{ icon: KeySquare, title: 'No variables' }}
        label={`Variables of ${group_name}`}
        keyOf={one => one.name}
        columns={[
          { title: 'Name', cell: one => <Mono className="font-medium">{one.name}</Mono> },
          {
            title: 'Value',
            cell: one => (one.value === null ? <span className="text-faint">••••••••</span> : <Mono>{one.value}</Mono>),
          },
          { title: 'Changed', at: one => one.updated_at },
        ]}
        actionsOf={one => (
          <DestroyIcon
            name={one.name}
            what="variable"
            verb="Remove"
            consequence="The next deployments of the apps no longer have it. Running deployments keep it."
            send={async () => {
              await api.deleteEnvGroupVariable({ group_name, name: one.name })
              await refresh()
            }}
          />
        )}
      />
      {(versions.data?.length ?? 0) > 0 && (
        <EnvHistory
          title={`History of ${group_name}`}
          query={versions}
          restore={async version => {
            await api.restoreEnvGroupVersion({ group_name, version })
            await refresh()
          }}
        />
      )}
    </>
  )
}

function SetVariable({ group_name }: { readonly group_name: string }) {
  return (
    <FormDialog
      title={`Set a variable of ${group_name}`}
      submit="Save"
      trigger={open => <AddButton text="Set variable" onClick={open} />}
      send={async values => {
        const body = { value: values.text('value'), secret: !values.checked('plain') }
        await api.putEnvGroupVariable({ group_name, name: values.text('name'), body })
        await refresh()
      }}
      fields={
        <>
          <NameField maxLength={128} placeholder="API_URL" />
          <Field label="Value" name="value" mono autoComplete="off" spellCheck={false} />
          <Check label="Members of the project may read the value" name="plain" />
        </>
      }
    />
  )
}
