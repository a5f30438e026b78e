import type { App } from '@mote/client'
import { useQuery } from '@tanstack/react-query'
import { ClipboardPaste, KeySquare } from 'lucide-react'
import { api } from '../../api/client.ts'
import { queries, refreshAll } from '../../api/queries.ts'
import { Button } from '../../ui/button.tsx'
import { FormDialog } from '../../ui/dialog.tsx'
import { Check, Field, NameField, TextArea } from '../../ui/form.tsx'
import { plural } from '../../ui/format.ts'
import { Mono } from '../../ui/layout.tsx'
import { ListCard } from '../../ui/listing.tsx'
import { AddButton, DestroyIcon } from '../../ui/row-actions.tsx'
import { toast } from '../../ui/toast.tsx'
import { AppEnvGroups } from './app-env-groups.tsx'
import { EnvHistory } from './env-history.tsx'
import { envPlaceholder, setVariables, variablesIn } from './env-text.ts'
import { GivenFiles } from './given-files.tsx'
import { useApp } from './use-app.ts'

export function Environment() {
  const app = useApp()
  return (
    <div className="space-y-4">
      <Variables app={app} />
      {app.env_of === null && <AppEnvGroups app_name={app.name} />}
      {app.env_of === null && <GivenFiles app_name={app.name} />}
      <Versions app_name={app.name} />
    </div>
  )
}

function Versions({ app_name }: { readonly app_name: string }) {
  const versions = useQuery(queries.appEnvVersions(app_name))
  if ((versions.data?.length ?? 0) === 0) return null
  return (
    <EnvHistory
      title="History of variables"
      query={versions}
      restore={async version => {
        await api.restoreAppEnvVersion({ app_name, version })
        await refreshAll('env', 'env-versions', 'app')
      }}
    />
  )
}

function Variables({ app }: { readonly app: App }) {
  const env = useQuery(queries.env(app.name))
  return (
    <ListCard
      title="Environment"
      lead="Values are stored encrypted, and hidden unless mote.toml or mote env set --plain made them readable. Changes take effect with the next deployment."
      create={
        <div className="flex flex-wrap gap-2">
          <PasteVariables app_name={app.name} />
          <SetVariable app_name={app.name} />
        </div>
      }
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
              await refreshAll('env', 'env-versions')
            }}
          />
        </>
      )}
    />
  )
}

/** Sets every variable of a pasted .env file. */
function PasteVariables({ app_name }: { readonly app_name: string }) {
  return (
    <FormDialog
      wide
      title="Paste a .env file"
      lead="Variables of the same name are replaced, all others stay."
      submit="Set variables"
      trigger={open => (
        <Button size="small" onClick={open}>
          <ClipboardPaste aria-hidden="true" size={13} /> Paste .env
        </Button>
      )}
      send={async values => {
        const entries = variablesIn(values.text('env'))
        if (entries.length === 0) throw new Error('The text has no variables. Write NAME=value, one in each line.')
        await setVariables(app_name, entries, !values.checked('plain'))
        await refreshAll('env', 'env-versions')
        toast({ tone: 'good', title: `Set ${plural(entries.length, 'variable')}` })
      }}
      fields={
        <>
          <TextArea
            label="Variables"
            name="env"
            rows={10}
            required
            autoFocus
            spellCheck={false}
            placeholder={envPlaceholder}
          />
          <Check label="Members of the project may read the values" name="plain" />
        </>
      }
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
  /**
   * Whether the value is hidden. A readable variable stays readable, so that `mote config pull` can write it to a file.
   */
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
        await refreshAll('env', 'env-versions')
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
