import type { EnvGroup } from '@mote/client'
import { useQuery } from '@tanstack/react-query'
import { KeySquare, Layers } from 'lucide-react'
import { api } from '../api/client.ts'
import { queries, refreshAll } from '../api/queries.ts'
import { Check, Field, NameField } from '../ui/form.tsx'
import { Mono } from '../ui/layout.tsx'
import { OwnedList } from '../ui/owned-list.tsx'
import { EnvHistory } from './app/env-history.tsx'

const refresh = () => refreshAll('env-groups', 'env-group', 'env-group-versions')

/** Environment groups: variables that several apps of the project share. */
export function EnvGroups() {
  const groups = useQuery(queries.envGroups())
  return (
    <>
      <OwnedList
        title="Environment groups"
        lead="Variables that several apps share. Attach a group on the Environment page of an app."
        query={groups}
        refresh={refresh}
        nothing={{ icon: Layers, title: 'No groups', text: 'Variables that several apps need, such as API_URL.' }}
        keyOf={one => one.id}
        nameOf={one => one.name}
        columns={[
          { title: 'Apps', cell: one => one.apps.join(', ') },
          { title: 'Created', at: one => one.created_at },
        ]}
        add={{
          text: 'Add group',
          title: 'Add a group',
          submit: 'Add',
          fields: <NameField maxLength={40} placeholder="shared" />,
          send: values => api.createEnvGroup({ body: { name: values.text('name') } }),
        }}
        remove={{
          verb: 'Delete',
          what: 'group',
          consequence: 'Its variables are deleted. Detach it from its apps first.',
          send: one => api.deleteEnvGroup({ group_name: one.name }),
        }}
      />
      {groups.data?.map(one => (
        <Group key={one.id} group={one} />
      ))}
    </>
  )
}

function Group({ group: { name: group_name } }: { readonly group: EnvGroup }) {
  const variables = useQuery(queries.envGroup(group_name))
  const versions = useQuery(queries.envGroupVersions(group_name))
  return (
    <>
      <OwnedList
        title={`Variables of ${group_name}`}
        lead="Deployments get these values when they start."
        query={variables}
        refresh={refresh}
        nothing={{ icon: KeySquare, title: 'No variables' }}
        keyOf={one => one.name}
        nameOf={one => one.name}
        columns={[
          {
            title: 'Value',
            cell: one => (one.value === null ? <span className="text-faint">••••••••</span> : <Mono>{one.value}</Mono>),
          },
          { title: 'Last changed', at: one => one.updated_at },
        ]}
        add={{
          text: 'Set variable',
          title: `Set a variable of ${group_name}`,
          submit: 'Save',
          fields: <VariableFields />,
          send: values => {
            const body = { value: values.text('value'), secret: !values.checked('plain') }
            return api.putEnvGroupVariable({ group_name, name: values.text('name'), body })
          },
        }}
        remove={{
          verb: 'Remove',
          what: 'variable',
          consequence: 'The next deployments of the apps no longer have it. Running deployments keep it.',
          send: one => api.deleteEnvGroupVariable({ group_name, name: one.name }),
        }}
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

const VariableFields = () => (
  <>
    <NameField maxLength={128} placeholder="API_URL" />
    <Field label="Value" name="value" mono autoComplete="off" spellCheck={false} />
    <Check label="Members of the project may read the value" name="plain" />
  </>
)
