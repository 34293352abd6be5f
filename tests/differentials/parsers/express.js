// A provider built on Express, body-parser and busboy: answers with every model that it finds in a request.
'use strict'
const http = require('http')
const { Readable } = require('stream')
const express = require('express')
const busboy = require('busboy')

// Express' own way with paths: no difference between cases, a slash more at the end.
const ROUTES = [
  '/openai/deployments/:model/*',
  '*/openai/deployments/:model/*',
  '/model/:model/invoke',
  '/model/:model/converse',
  '/model/:model/count-tokens',
  '/v1beta/models/:model\\:generateContent',
  '*/models/:model\\:generateContent',
  '*/models/:model\\:streamGenerateContent'
]

function add (models, value) {
  if (typeof value === 'string') models.add(value)
  else if (Array.isArray(value)) value.forEach((one) => add(models, one))
}

// Runs one of body-parser's parsers over the whole request as it came.
function parse (parser, request, raw) {
  return new Promise((resolve) => {
    const copy = Readable.from(raw.length ? [raw] : [])
    copy.headers = { ...request.headers, 'content-length': String(raw.length) }
    delete copy.headers['transfer-encoding']
    copy.method = request.method
    copy.url = request.url
    parser(copy, {}, (error) => resolve(error ? undefined : copy.body))
  })
}

function parts (request, raw, models) {
  return new Promise((resolve) => {
    let parser
    try {
      parser = busboy({ headers: request.headers })
    } catch {
      return resolve()
    }
    parser.on('field', (name, value) => { if (name === 'model') add(models, value) })
    parser.on('file', (name, stream) => stream.resume())
    parser.on('close', resolve)
    parser.on('error', () => resolve())
    parser.end(raw)
  })
}

const PARSERS = [
  express.json(),
  express.json({ type: '*/*' }),
  express.json({ type: () => true, strict: false }),
  express.urlencoded({ extended: true }),
  express.urlencoded({ extended: false })
]

const app = express()
app.disable('x-powered-by')
app.use(async (request, response, next) => {
  const chunks = []
  for await (const chunk of request) chunks.push(chunk)
  const raw = Buffer.concat(chunks)
  const models = new Set()
  for (const parser of PARSERS) {
    const body = await parse(parser, request, raw)
    if (body && typeof body === 'object') add(models, body.model)
  }
  await parts(request, raw, models)
  response.locals.models = models
  next()
})
for (const route of ROUTES) {
  app.all(route, (request, response, next) => {
    add(response.locals.models, request.params.model)
    next()
  })
}
app.use((request, response) => {
  response.set('x-parser', 'express').json({ models: [...response.locals.models] })
})
app.use((error, request, response, next) => response.set('x-parser', 'express').json({ models: [...(response.locals.models ?? [])], error: error.name }))

const server = http.createServer(app).listen(0, '127.0.0.1', () => console.log(server.address().port))
