import { useQuery } from '@tanstack/react-query'
import { KeySquare } from 'lucide-react'
import { api } from '../../api/client.ts'
import { queries, refreshAll } from '../../api/queries.ts'
import { Button } from '../../ui/button.tsx'
import { FormDialog } from '../../ui/dialog.tsx'
import { Field, NameField } from '../../ui/form.tsx'
import { Mono } from '../../ui/layout.tsx'
import { ListCard } from '../../ui/listing.tsx'
import { AddButton, DestroyIcon } from '../../ui/row-actions.tsx'
import { useApp } from './use-app.ts'

export function Environment() {
  const app = useApp()
  const env = useQuery(queries.env(app.name))
  return (
    <ListCard
      title="Environment"
      lead="Values are stored encrypted. Only those of mote.toml are shown. Changes take effect with the next deploy."
      create={<SetVariable app_name={app.name} />}
      query={env}
      nothing={{
        icon: KeySquare,
        title: 'No variables',
        text: 'Settings and secrets for your app, such as DATABASE_URL. PORT is set automatically.',
      }}
      label="Environment variables"
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
        <>
          <SetVariable app_name={app.name} name={one.name} secret={one.secret} />
          <DestroyIcon
            name={one.name}
            what="variable"
            verb="Remove"
            consequence={`The next deployment of ${app.name} no longer has it. Running deployments keep it.`}
            send={async () => {
              await api.deleteAppEnv({ app_name: app.name, name: one.name })
              await refreshAll('env')
            }}
          />
        </>
      )}
    />
  )
}

function SetVariable({
  app_name,
  name,
  secret = true,
}: {
  readonly app_name: string
  readonly name?: string
  /** A plain variable stays plain, so that `mote config pull` can write it into the file. */
  readonly secret?: boolean
}) {
  return (
    <FormDialog
      title={name ? `Change ${name}` : 'Add a variable'}
      submit="Save"
      trigger={open =>
        name ? (
          <Button look="quiet" size="small" onClick={open} aria-label={`Change ${name}`}>
            Change
          </Button>
        ) : (
          <AddButton text="Add variable" onClick={open} />
        )
      }
      send={async values => {
        await api.putAppEnv({
          app_name,
          name: name ?? values.text('name'),
          body: { value: values.text('value'), secret },
        })
        await refreshAll('env')
      }}
      fields={
        <>
          {!name && <NameField maxLength={128} placeholder="DATABASE_URL" />}
          <Field label="Value" name="value" mono autoComplete="off" spellCheck={false} autoFocus={Boolean(name)} />
        </>
      }
    />
  )
}
