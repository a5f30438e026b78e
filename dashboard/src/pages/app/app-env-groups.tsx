import { useQuery } from '@tanstack/react-query'
import { api } from '../../api/client.ts'
import { queries, refreshAll } from '../../api/queries.ts'
import { Field, Form } from '../../ui/form.tsx'
import { Card } from '../../ui/layout.tsx'
import { Loaded } from '../../ui/states.tsx'
import { toast } from '../../ui/toast.tsx'

/** The environment groups of the project that are attached to the app. */
export function AppEnvGroups({ app_name }: { readonly app_name: string }) {
  const groups = useQuery(queries.appEnvGroups(app_name))
  return (
    <Card
      title="Environment groups"
      lead="Variables that apps of the project share. Takes effect with the next deploy."
    >
      <Loaded query={groups}>
        {attached => {
          const names = attached.map(({ name }) => name).join(' ')
          return (
            <Form
              key={names}
              className="max-w-xl"
              submit="Save"
              send={async values => {
                const wanted = values.text('groups').split(/[\s,]+/)
                await api.setAppEnvGroups({ app_name, body: { groups: wanted.filter(name => name !== '') } })
                await refreshAll('app-env-groups', 'env-groups', 'app', 'apps')
                toast({ tone: 'good', title: 'Groups attached' })
              }}
            >
              <Field
                label="Groups"
                name="groups"
                mono
                defaultValue={names}
                placeholder="shared team"
                hint="Names of groups in the project settings, separated by spaces. Variables of the app take precedence, then those of later groups."
              />
            </Form>
          )
        }}
      </Loaded>
    </Card>
  )
}
