/* SPDX-License-Identifier: BSD-2-Clause */
#include "producer-demo/order_service/body.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <strings.h>

static bool is_json(const char *content_type)
{
    static const char wanted[] = "application/json";

    if (!content_type || strncasecmp(content_type, wanted, sizeof wanted - 1) != 0)
        return false;
    content_type += sizeof wanted - 1;
    content_type += strspn(content_type, " \t");
    return *content_type == 0 || *content_type == ';';
}

static size_t characters_count(const char *text)
{
    size_t n = 0;

    for (; *text; text++)
        n += ((unsigned char)*text & 0xc0) != 0x80;
    return n;
}

static bool text_take(const struct body_field *field, const json_t *value, struct web_response *response)
{
    const char *text = json_string_value(value);
    size_t n = text ? characters_count(text) : 0;

    if (!text || n < 1 || n > field->text_max) {
        web_response_problem(response, 400, "a field is not valid", "\"%s\" must be a string of 1 to %zu characters", field->name,
                             field->text_max);
        return false;
    }
    *field->text = text;
    return true;
}

/* 1.0 is an integer too, says JSON Schema. */
static bool integer_get(const json_t *value, int64_t *ret)
{
    double real = json_real_value(value);

    if (json_is_integer(value))
        *ret = json_integer_value(value);
    else if (json_is_real(value) && fabs(real) < 1e15 && trunc(real) >= real && trunc(real) <= real)
        *ret = (int64_t)real;
    else
        return false;
    return true;
}

static bool number_take(const struct body_field *field, const json_t *value, struct web_response *response)
{
    int64_t number = 0;

    if (!integer_get(value, &number) || number < 1 || number > field->number_max) {
        web_response_problem(response, 400, "a field is not valid", "\"%s\" must be a whole number from 1 to %" PRId64, field->name,
                             field->number_max);
        return false;
    }
    *field->number = number;
    return true;
}

static bool field_take(const struct body_field *field, const json_t *body, struct web_response *response)
{
    const json_t *value = json_object_get(body, field->name);

    if (field->text)
        *field->text = NULL;
    if (value)
        return field->text ? text_take(field, value, response) : number_take(field, value, response);
    if (!field->optional)
        web_response_problem(response, 400, "a field is missing", "\"%s\" must be in the body", field->name);
    return field->optional;
}

static bool names_known(json_t *body, const struct body_field *fields, int fields_n, struct web_response *response)
{
    const char *name;
    json_t *value;

    json_object_foreach(body, name, value)
    {
        int i = 0;

        while (i < fields_n && strcmp(fields[i].name, name) != 0)
            i++;
        if (i == fields_n) {
            web_response_problem(response, 400, "a field is not known", "remove \"%.100s\" from the body", name);
            return false;
        }
    }
    return true;
}

json_t *body_read(const struct web_request *request, const struct body_field *fields, int fields_n, struct web_response *response)
{
    json_error_t error;
    json_t *body;

    if (!is_json(web_request_header(request, "Content-Type"))) {
        web_response_problem(response, 415, "the body is not JSON", "send it with Content-Type: application/json");
        return NULL;
    }
    body = json_loadb(request->body, request->body_n, JSON_REJECT_DUPLICATES, &error);
    if (!body) {
        web_response_problem(response, 400, "the body is not valid JSON", "line %d, column %d: %s", error.line, error.column, error.text);
        return NULL;
    }
    if (!json_is_object(body))
        web_response_problem(response, 400, "the body is not a JSON object", "send an object");
    else if (names_known(body, fields, fields_n, response)) {
        int i = 0;

        while (i < fields_n && field_take(&fields[i], body, response))
            i++;
        if (i == fields_n)
            return body;
    }
    json_decref(body);
    return NULL;
}
