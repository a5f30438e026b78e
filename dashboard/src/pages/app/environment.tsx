import { useQuery } from '@tanstack/react-query'
import { KeySquare, Plus, Trash2 } from 'lucide-react'
import { api } from '../../api/client.ts'
import { queries, refreshAll } from '../../api/queries.ts'
import { Button } from '../../ui/button.tsx'
import { Destroy, FormDialog } from '../../ui/dialog.tsx'
import { Field } from '../../ui/form.tsx'
import { Card, Mono } from '../../ui/layout.tsx'
import { Empty, Loaded } from '../../ui/states.tsx'
import { Table } from '../../ui/table.tsx'
import { Ago } from '../../ui/time.tsx'
import { useApp } from './use-app.ts'

export function Environment() {
  const app = useApp()
  const env = useQuery(queries.env(app.name))
  return (
    <Card
      flush
      title="Environment"
      lead="Values are stored encrypted and never shown again. Changes take effect with the next deploy."
      actions={env.data && env.data.length > 0 && <SetVariable app_name={app.name} />}
    >
      <Loaded query={env}>
        {variables =>
          variables.length === 0 ? (
            <Empty icon={KeySquare} title="No variables" action={<SetVariable app_name={app.name} />}>
              Settings and secrets that the program reads, such as DATABASE_URL. PORT is set for you.
            </Empty>
          ) : (
            <Table
              label="Environment variables"
              rows={variables}
              keyOf={one => one.name}
              columns={[
                { title: 'Name', cell: one => <Mono className="font-medium">{one.name}</Mono> },
                { title: 'Value', cell: () => <span className="text-faint">••••••••</span> },
                {
                  title: 'Changed',
                  wideOnly: true,
                  cell: one => (
                    <span className="text-muted">
                      <Ago at={one.updated_at} />
                    </span>
                  ),
                },
                {
                  title: '_Actions',
                  right: true,
                  cell: one => (
                    <span className="inline-flex gap-1">
                      <SetVariable app_name={app.name} name={one.name} />
                      <Destroy
                        name={one.name}
                        what="variable"
                        verb="Remove"
                        consequence={`The next deployment of ${app.name} does not have it any more. What runs keeps it.`}
                        send={async () => {
                          await api.deleteAppEnv({ app_name: app.name, name: one.name })
                          await refreshAll('env')
                        }}
                        trigger={open => (
                          <Button look="quiet" size="smallIcon" aria-label={`Remove ${one.name}`} onClick={open}>
                            <Trash2 aria-hidden="true" size={14} />
                          </Button>
                        )}
                      />
                    </span>
                  ),
                },
              ]}
            />
          )
        }
      </Loaded>
    </Card>
  )
}

function SetVariable({ app_name, name }: { readonly app_name: string; readonly name?: string }) {
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
          <Button size="small" onClick={open}>
            <Plus aria-hidden="true" size={13} /> Add variable
          </Button>
        )
      }
      send={async values => {
        await api.putAppEnv({ app_name, name: name ?? values.text('name'), body: { value: values.text('value') } })
        await refreshAll('env')
      }}
      fields={
        <>
          {!name && (
            <Field
              label="Name"
              name="name"
              mono
              required
              autoFocus
              maxLength={128}
              autoComplete="off"
              spellCheck={false}
              placeholder="DATABASE_URL"
            />
          )}
          <Field label="Value" name="value" mono autoComplete="off" spellCheck={false} autoFocus={Boolean(name)} />
        </>
      }
    />
  )
}
